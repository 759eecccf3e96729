"""The example modules as text, for prompts."""

from importlib.resources import files

from serl.researcher.modules.contracts import Form, Kind, form_of


def example(kind: Kind, form: Form) -> str:
    """The text of the example of a kind and form; kinds that are settings have only specifications."""
    form = form_of(kind, form)
    name = f"{kind.value}.{'py' if form == 'code' else 'json'}"
    return files("serl.researcher.modules").joinpath("examples", name).read_text()
