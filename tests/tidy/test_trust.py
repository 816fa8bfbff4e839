"""Nothing that comes out of the database is ever turned into code: no pickle, no evaluation, no import by payload."""

import ast

from tests.tidy.test_imports import imports
from tests.tidy.tree import SOURCE, below, nodes, place

DESERIALISERS = {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "yaml"}
# Modules are imported by name where the name is ours, or the operator's who starts the process.
IMPORTERS = {
    "__init__.py": "a name of the package itself",
    "database/foreign/__init__.py": "the file of a known stack",
    "edges/cli/app_path.py": "WAKEFUL_APP, which the operator sets",
    "edges/cli/main.py": "a command of ours",
    "edges/testing/__init__.py": "a name of the package itself",
    "run/remote.py": "the module of a task that this worker has registered",
}
EVALUATORS = {"eval", "exec", "compile", "__import__"}


def test_no_module_can_unpickle() -> None:
    found = [f"{where}: {name}" for path in below(SOURCE, ".py") for where, name in imports(path)]
    assert not [one for one in found if one.rpartition(": ")[2].partition(".")[0] in DESERIALISERS]


def test_modules_are_imported_by_name_only_where_the_name_is_trusted() -> None:
    astray = [
        place(path, node.lineno)
        for path in below(SOURCE, ".py")
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and called(node) == "import_module"
        and str(path.relative_to(SOURCE)) not in IMPORTERS
    ]
    assert not astray


def test_nothing_is_evaluated() -> None:
    found = [
        place(path, node.lineno)
        for path in below(SOURCE, ".py")
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in EVALUATORS
    ]
    assert not found


def called(node: ast.Call) -> str:
    """The last name of what is called."""
    return ast.unparse(node.func).rpartition(".")[2]
