"""`wakeful`: the group of commands, and what an error becomes: one sentence on stderr and an exit code.

0 is fine, 1 is "what was asked is not so", 2 is wrong usage, 130 is Ctrl-C. `WAKEFUL_DEBUG=1` shows the traceback
instead.
"""

from __future__ import annotations

import importlib
import os
import sys
from keyword import iskeyword
from typing import NoReturn, TextIO

import click
from click.exceptions import NoArgsIsHelpError

from wakeful.edges.cli.__main__ import INTERRUPTED
from wakeful.values.errors import ConfigError, InvalidOption, PayloadError, UnknownTask, WakefulError

# A command is `wakeful.edges.cli.<module>:<name>`. Its text is here, so that `--help` imports no command.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "See it all at work on one screen, on a server of its own."),
    "dev": ("dev", "Run an app's jobs while you edit it: server, schema, worker, reload."),
    "db": ("db", "Start, stop and look at the embedded PostgreSQL."),
    "migrate": ("migrate", "Bring the database's schema up to date, or back."),
    "worker": ("worker", "Run an app's jobs, for ever or once."),
    "enqueue": ("enqueue", "Enqueue a job by hand."),
    "jobs": ("jobs", "Find jobs, and cancel, retry or bury them."),
    "explain": ("explain", "Tell why a job is not running, or what happened to it."),
    "replay": ("replay", "Run a finished job's handler here, changing no state."),
    "dead": ("dead", "See to jobs that failed for good."),
    "breakers": ("breakers", "See circuit breakers, and open or close them by hand."),
    "queues": ("queues", "See queues, and pause or resume them or single tasks."),
    "schedules": ("schedules", "See schedules, and run, pause or resume them."),
    "workers": ("workers", "See the workers."),
    "stats": ("stats", "Count the jobs in each state, exactly."),
    "health": ("health", "Tell whether the queue is well; exit 1 when it is not."),
    "doctor": ("doctor", "Examine the server and the schema, with a remedy for each finding."),
    "top": ("top", "Watch the queue live, and act on it by keys."),
    "cleanup": ("cleanup", "Remove jobs that have been over for some days."),
    "import": ("import_table", "Make jobs of the rows of a home-made jobs table."),
    "bench": ("bench", "Measure what this server will carry, in a throwaway database."),
}

USAGE_ERRORS = (ConfigError, InvalidOption, PayloadError, UnknownTask)


class LazyGroup(click.Group):
    """A group that knows its commands by name, and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the table, which is the order in which people need them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's file."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"wakeful.edges.cli.{COMMANDS[cmd_name][0]}")
        name = cmd_name.replace("-", "_")
        command = getattr(module, f"{name}_" if iskeyword(name) else name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the nearest command named where there is none."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(unknown_command(args[0]))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


def unknown_command(name: str) -> str:
    """What to say of a command that is not there."""
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=1)
    return f"No such command '{name}'." + (f" Did you mean '{near[0]}'?" if near else "")


def show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the version and stop."""
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version("wakeful")
        except PackageNotFoundError:
            found = "(a checkout that is not installed)"
        click.echo(f"wakeful {found}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--dsn", metavar="DSN", help="The database; else WAKEFUL_DSN, DATABASE_URL, the embedded one.")
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=show_version)
@click.pass_context
def cli(ctx: click.Context, dsn: str | None) -> None:
    """A PostgreSQL job queue for Python whose workers sleep until there is work."""
    ctx.obj = dsn


def main() -> NoReturn:
    """Run a command and exit with its code."""
    if os.environ.get("WAKEFUL_DEBUG") in ("1", "true", "on"):
        sys.exit(cli.main(standalone_mode=False, prog_name="wakeful") or 0)
    code = run()
    try:
        sys.stderr.flush()
    except OSError:
        # The terminal was closed: at its end the interpreter would try again, fail, and make the exit code 120.
        to_nowhere(sys.stderr)
    sys.exit(code)


def run(args: list[str] | None = None) -> int:
    """Run a command; errors become a sentence on stderr, and the exit code is returned."""
    try:
        code = cli.main(args, standalone_mode=False, prog_name="wakeful")
        return code if isinstance(code, int) else 0
    except NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.UsageError as error:
        return fail(f"{error.format_message()} {where_to_look(error)}", 2)
    except click.ClickException as error:
        return fail(error.format_message(), error.exit_code)
    except click.Abort:
        return fail("Interrupted.", INTERRUPTED)
    except WakefulError as error:
        return fail(error.message, 2 if isinstance(error, USAGE_ERRORS) else 1)
    except BrokenPipeError:
        return broken_pipe()
    except Exception as error:
        # The last line of defence: whatever a command did not foresee is still told in a sentence.
        told = str(error).strip().partition("\n")[0]
        return fail(f"{type(error).__name__}: {told} (WAKEFUL_DEBUG=1 shows where).", 1)


def fail(sentence: str, code: int) -> int:
    """Tell people on stderr; stdout stays for the answer."""
    click.echo(f"wakeful: {sentence}", err=True)
    return code


def where_to_look(error: click.UsageError) -> str:
    """The help that would have told."""
    return f"See `{error.ctx.command_path if error.ctx else 'wakeful'} --help`."


def broken_pipe() -> int:
    """The reader (`| head`) has gone: leave quietly, as other tools do."""
    to_nowhere(sys.stdout)
    return 1


def to_nowhere(stream: TextIO) -> None:
    """What is still to be written there is dropped."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
