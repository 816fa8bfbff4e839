"""From `module:attribute` to the app, or a sentence that says why there is none."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from types import ModuleType
from typing import TYPE_CHECKING, Any

from wakeful.values.errors import ConfigError

if TYPE_CHECKING:
    from wakeful.app import Wakeful


def load_app(path: str | None) -> Wakeful:
    """Import the app, from the working directory too. A ConfigError names what is wrong with the path."""
    module_name, attribute = split_path(path)
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    found = attribute_of(import_module(module_name), attribute)
    return checked(found, f"{module_name}:{attribute}")


def split_path(path: str | None) -> tuple[str, str]:
    """The two parts of `module:attribute`."""
    if path is None:
        raise ConfigError(
            message="Which app? Say `module:attribute` after the command, in WAKEFUL_APP, or as `app` in wakeful.toml."
        )
    module, _, attribute = path.partition(":")
    if module.endswith(".py") or "/" in module:
        dotted = module.removeprefix("./").removesuffix(".py").replace("/", ".")
        raise ConfigError("App", f"{path!r} names a file: name the module instead, {dotted}:{attribute or 'app'}.")
    if not module or not attribute:
        raise ConfigError("App", f"{path!r} is not complete: write module:attribute, such as {module or 'shop'}:app.")
    return module, attribute


def import_module(name: str) -> ModuleType:
    """Import it; whatever goes wrong in it is told with its place."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(
                message=f"There is no module {error.name!r} in {os.getcwd()} or among the installed packages: "
                "run this in the folder that has it, or correct the name."
            ) from error
        raise broken(name, error) from error
    except Exception as error:  # a user's module may raise anything at all while it is imported
        raise broken(name, error) from error


def broken(name: str, error: Exception) -> ConfigError:
    """The sentence for a module that cannot be imported."""
    told = error.msg if isinstance(error, SyntaxError) else str(error).partition("\n")[0]
    problem = f"{type(error).__name__}: {told.rstrip('.')}" if told else type(error).__name__
    return ConfigError(message=f"Module {name!r} cannot be imported: {problem}{place_of(error)}. Correct it there.")


def place_of(error: Exception) -> str:
    """File and line, as editors and terminals link them."""
    if isinstance(error, SyntaxError):
        return f" ({nearby(error.filename or '?')}:{error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if os.path.isfile(frame.filename)]
    own = [frame for frame in frames if frame.filename not in (__file__, importlib.__file__)]
    return f" ({nearby(own[-1].filename)}:{own[-1].lineno})" if own else ""


def nearby(file: str) -> str:
    """The path as seen from here, where that is shorter."""
    return min(file, os.path.relpath(file), key=len)


def attribute_of(module: ModuleType, path: str) -> Any:
    """What the attribute, or the attribute of an attribute, holds."""
    found: Any = module
    for name in path.split("."):
        if not hasattr(found, name):
            raise ConfigError(message=f"Module {module.__name__!r} has no {path!r}{suggestion(module)}")
        found = getattr(found, name)
    return found


def suggestion(module: ModuleType) -> str:
    """The apps that are there instead."""
    from wakeful.app import Wakeful

    apps = [name for name, value in vars(module).items() if isinstance(value, Wakeful)]
    return f": did you mean {module.__name__}:{apps[0]}?" if apps else ", nor any other app: make one there."


def checked(found: Any, path: str) -> Wakeful:
    """The app, if it is one and has something to run."""
    from wakeful.app import Wakeful

    if not isinstance(found, Wakeful):
        kind = type(found).__name__
        raise ConfigError(message=f"{path} is a {kind}, not an app: name what Wakeful(…) was assigned to.")
    if not found.tasks:
        raise ConfigError(
            message=f"{path} has no task: declare some with @app.task, and import their modules where the app is."
        )
    return found
