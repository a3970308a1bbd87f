"""The realization: which type each site has, by patterns on the sites' names."""

import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from presk_db.errors import RealizationUnreadable, SiteUnknown, TypeUnknown
from presk_db.kernels.types import REAL_TYPES

PARAMETERS = "parameters/*"
"""The sites of all parameters."""


@dataclass(frozen=True)
class Realization:
    """A default type and rules in order, the last that matches wins.

    A rule's pattern (`*` matches anything) names sites such as `forward/block.0/layer_norm#2/mul`, or a whole call such
    as `*/layer_norm*`, which stands for all sites in it. Parameters are sites `parameters/NAME`, inputs `inputs/NAME`.
    `lenient` rules are for several entries: it is enough that one of them matches.
    """

    default: str
    rules: tuple[tuple[str, str], ...] = ()
    lenient: bool = False
    _used: set[str] = field(default_factory=set, compare=False, repr=False)

    def type_of(self, site: str) -> str:
        """The type of a real-valued site."""
        found = self.default
        for pattern, type_ in self.rules:
            if fnmatchcase(site, pattern) or fnmatchcase(site, pattern + "/*"):
                self._used.add(pattern)
                found = type_
        return found

    def names(self, site: str) -> bool:
        """Whether a rule says this site's type."""
        return any(fnmatchcase(site, p) or fnmatchcase(site, p + "/*") for p, _ in self.rules)

    def check_used(self) -> None:
        """Raises SiteUnknown (E3002) for a rule that matched no site so far."""
        if self.lenient and self._used:
            return
        for pattern, _ in self.rules:
            if pattern not in self._used:
                raise SiteUnknown(
                    "this pattern matches no site; `presk show graph` prints the calls", f"sites.{pattern}"
                )

    def as_dict(self) -> dict[str, object]:
        """For the canonical spec."""
        return {"type": self.default, "sites": dict(self.rules)}


def realization_of_type(type_: str) -> Realization:
    """Every site in one type; TypeUnknown (E3003) for another word than f64, f32, bf16."""
    return Realization(_type(type_, "type"))


def realization_from_toml(path: Path) -> Realization:
    """From a file with the keys `type` (the default), `params` (the parameters' type) and the table `sites` (pattern =
    type), whose rules come last.

    Raises E3001 for a file that cannot be read or another key, E3003 for an unknown type.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise RealizationUnreadable(f"cannot read it: {e}", str(path)) from None
    for key in document:
        if key not in ("type", "params", "sites"):
            raise RealizationUnreadable(f"unknown key {key}; a realization has type, params and sites", str(path))
    sites = document.get("sites", {})
    if not isinstance(sites, dict):
        raise RealizationUnreadable("sites is not a table", str(path))
    rules = tuple((pattern, _type(type_, f"{path} sites.{pattern}")) for pattern, type_ in sites.items())
    found = Realization(_type(document.get("type", "f32"), f"{path} type"), rules)
    return with_parameters(found, document["params"], f"{path} params") if "params" in document else found


def with_parameters(realization: Realization, type_: object, place: str = "params") -> Realization:
    """The realization with its parameters stored in a type, unless a rule of it says another. Raises E3003."""
    rules = ((PARAMETERS, _type(type_, place)), *realization.rules)
    return Realization(realization.default, rules, realization.lenient)


def _type(value: object, place: str) -> str:
    if value not in REAL_TYPES:
        raise TypeUnknown(f"{value!r} is no type; presk has {', '.join(REAL_TYPES)}", place)
    return str(value)
