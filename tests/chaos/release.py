"""The next release, made of this one: a migration more, and code that calls the verbs which that one brings.

The migration adds a column to the busiest table and, beside each verb of the workers, one of the next number: the same
body under another name. So workers of both releases run on one schema, each by its own verbs.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import wakeful
from tests.sessions import Session, query
from wakeful.database.migrations import SHIPPED, newest_version

VERB = re.compile(r"\bwakeful\.([a-z_]+)_1\b")
DEFINITIONS = """
    select p.proname::text as name, pg_get_functiondef(p.oid) as body,
        pg_get_function_identity_arguments(p.oid) as arguments,
        array(select acl.grantee::regrole::text from aclexplode(p.proacl) acl
            where acl.grantee <> p.proowner and acl.grantee <> 0) as roles
    from pg_proc p where p.pronamespace = 'wakeful'::regnamespace and p.proname = any (%s)
"""


class NextRelease:
    """`source` is where its package is imported from, `migrations` its migrations."""

    def __init__(self, folder: Path, db: Session) -> None:
        self.source = folder / "next"
        package = Path(shutil.copytree(Path(wakeful.__file__).parent, self.source / "wakeful"))
        statements = sorted((package / "statements").glob("*.py"))
        self.verbs = sorted({f"{verb}_1" for path in statements for verb in VERB.findall(path.read_text())})
        for path in statements:
            path.write_text(VERB.sub(r"wakeful.\1_2", path.read_text()))
        # It cannot work without its own verbs: the schema goes up before its workers start.
        schema = package / "statements" / "schema.py"
        schema.write_text(schema.read_text().replace("OLDEST_SCHEMA = 1", f"OLDEST_SCHEMA = {newest_version() + 1}"))
        self.migrations = package / SHIPPED.relative_to(Path(wakeful.__file__).parent)
        label = self.migrations / f"{newest_version() + 1:04d}_next"
        definitions = query(db, DEFINITIONS, self.verbs)
        assert {row["name"] for row in definitions} == set(self.verbs)
        up = ["alter table wakeful.job add column hue text;"]
        down = ["alter table wakeful.job drop column hue;"]
        for row in definitions:
            name, later = row["name"], f"{row['name'][:-1]}2"
            signature = f"wakeful.{later}({row['arguments']})"
            up += [re.sub(rf"\b{name}\b", later, row["body"]) + ";", f"revoke all on function {signature} from public;"]
            up += [f"grant execute on function {signature} to {role};" for role in row["roles"]]
            down.append(f"drop function {signature};")
        label.with_suffix(".up.sql").write_text("\n".join(up))
        label.with_suffix(".down.sql").write_text("\n".join(down))
