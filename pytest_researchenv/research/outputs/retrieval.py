"""Cross-modal retrieval: folders with an `evaluate.txt` of JSON lines beside the `config.yaml` of the run.

Neither file says which direction was adapted, though both directions are in it: the other is scored by a constant
matrix, so that its recall is about 0. A folder named `i2t` or `t2i` on the path says it; otherwise the recalls do.
Published: ResearchGym (arXiv 2602.15112), task cross-modal-retrieval.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pytest_researchenv.research.cells import Cell, Plan, Run, mean_cell
from pytest_researchenv.research.metrics import Metric
from pytest_researchenv.research.outputs.files import UnreadableError, read_json
from pytest_researchenv.research.outputs.found import Finder, Found
from pytest_researchenv.research.outputs.settings import read_settings


__all__ = ["IMAGE_SHIFTS", "PLANS", "TEXT_SHIFTS", "averages", "read_runs"]

#: Corruption, as in the path of its data → its column.
IMAGE_SHIFTS = {
    "gaussian_noise": "Gauss.",
    "shot_noise": "Shot",
    "impulse_noise": "Impul.",
    "speckle_noise": "Speckle",
    "defocus_blur": "Defoc.",
    "glass_blur": "Glass",
    "motion_blur": "Motion",
    "zoom_blur": "Zoom",
    "snow": "Snow",
    "frost": "Frost",
    "fog": "Fog",
    "brightness": "Brit.",
    "contrast": "Contr.",
    "elastic_transform": "Elastic",
    "pixelate": "Pixel",
    "jpeg_compression": "JPEG",
}
TEXT_SHIFTS = {
    "annotation_OcrAug": "OCR",
    "annotation_RandomCharAug_insert": "CI",
    "annotation_RandomCharAug_substitute": "CR",
    "annotation_RandomCharAug_swap": "CS",
    "annotation_RandomCharAug_delete": "CD",
    "annotation_sr": "SR",
    "annotation_ri": "RI",
    "annotation_rs": "RS",
    "annotation_rd": "RD",
    "annotation_ip": "IP",
    "annotation_formal": "Formal",
    "annotation_casual": "Casual",
    "annotation_passive": "Passive",
    "annotation_active": "Active",
    "annotation_back_trans": "Backtrans",
}

#: The largest severity that published settings have. Whole sentences are rewritten in one way only.
_IMAGE_SEVERITY = 5
_TEXT_SEVERITY = 7
_SENTENCES = frozenset({"Formal", "Casual", "Passive", "Active", "Backtrans"})

_GALLERIES = {
    "flickr": "Base2Flickr",
    "coco": "Base2COCO",
    "fashion_gen": "Base2Fashion",
    "nocaps_in_domain": "Base2Nocaps(ID)",
    "nocaps_near_domain": "Base2Nocaps(ND)",
    "nocaps_out_domain": "Base2Nocaps(OD)",
}
_PERSONS = {"icfg_pedes": "CUHK2ICFG T2IR@1", "cuhk_pedes": "ICFG2CUHK T2IR@1"}

_MODELS = {"base": "B16", "large": "L16"}
_IMAGE, _TEXT, _REID = "cmr-qs-image-cococ", "cmr-qs-text-cococ", "cmr-reid"
_GALLERY = {"clip": "cmr-qgs-clip-b16", "blip": "cmr-qgs-blip-b16"}
_DIRECTIONS = {"i2t": "txt_r1", "t2i": "img_r1"}

#: In percent; what a constant matrix reaches by chance is less, and every published recall is more.
_BY_CHANCE = 1.0


def _recall(name: str) -> Metric:
    return Metric(name, least=0, most=100)


def _plans(names: Mapping[str, int | None]) -> tuple[Plan, ...]:
    return tuple(Plan(_recall(name), (Run(severity=severity),)) for name, severity in names.items())


PLANS: Mapping[str, tuple[Plan, ...]] = {
    _IMAGE: _plans({f"{m}:{one}": _IMAGE_SEVERITY for m in _MODELS.values() for one in IMAGE_SHIFTS.values()}),
    _TEXT: _plans(
        {
            f"{m}:{one}": 1 if one in _SENTENCES else _TEXT_SEVERITY
            for m in _MODELS.values()
            for one in TEXT_SHIFTS.values()
        }
    ),
    **{
        name: _plans({f"{one} {way}": None for one in _GALLERIES.values() for way in ("I2TR@1", "T2IR@1")})
        for name in _GALLERY.values()
    },
    _REID: _plans(dict.fromkeys(_PERSONS.values())),
}


@dataclass(frozen=True, slots=True)
class _Column:
    """Where the recall of a run belongs; `way` is the direction, None where the run has to tell."""

    subtask: str
    name: str
    run: Run
    way: str | None = None


def averages(cells: Mapping[str, Cell]) -> dict[str, Cell]:
    """The tables' columns of averages: one of each model where columns name models, otherwise one."""
    groups: dict[str, list[Cell]] = {}
    for name, cell in cells.items():
        model = name.partition(":")[0] if name.startswith(tuple(f"{one}:" for one in _MODELS.values())) else ""
        groups.setdefault(f"{model}:Avg." if model else "Avg.", []).append(cell)
    return {name: mean_cell(_recall(name), group) for name, group in groups.items()}


def read_runs(root: Path) -> Found:
    """Read all runs below a folder."""
    finder = Finder(root)
    for path, name in finder.files("evaluate.txt"):
        if path.name != "evaluate.txt":
            continue
        try:
            column = _column(read_settings(finder.text(path.with_name("config.yaml"))))
            lines = list(_lines(finder.bytes(path)))
            for number, line in lines:
                for way in _ways(name, column, line):
                    metric = column.name if column.way else f"{column.name} {'I2TR' if way == 'i2t' else 'T2IR'}@1"
                    value = line.get(_DIRECTIONS[way])
                    finder.add(column.subtask, metric, column.run, value, f"{name}:{number}")
        except UnreadableError as error:
            finder.skip(name, error)
    return finder.found()


def _lines(data: bytes) -> Iterator[tuple[int, dict[str, object]]]:
    """The results in a file: a run appends its own, so that each line is one."""
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            value = read_json(line)
            if not isinstance(value, dict):
                raise UnreadableError(f"line {number} is no JSON object")
            yield number, value


# --- which column -------------------------------------------------------------------------------------------


def _column(settings: Mapping[str, str]) -> _Column:
    backbone, dataset = settings.get("backbone", ""), settings.get("dataset", "")
    model = settings.get("vit", "base")
    if backbone == "clip_reid" and dataset in _PERSONS:
        return _Column(_REID, _PERSONS[dataset], Run(), "t2i")
    shifted = _shifted(settings) if dataset == "coco" and backbone == "blip" and model in _MODELS else None
    if shifted is not None:
        return shifted
    tuned = "retrieval" in PurePosixPath(settings.get("pretrained", "")).name
    # Weights that were tuned on a data set's own captions have seen its gallery.
    if backbone in _GALLERY and dataset in _GALLERIES and model == "base" and not tuned:
        return _Column(_GALLERY[backbone], _GALLERIES[dataset], Run())
    described = ", ".join(f"{key} {settings.get(key, 'none')}" for key in ("backbone", "vit", "dataset", "pretrained"))
    raise UnreadableError(f"belongs to no table: {described}")


def _shifted(settings: Mapping[str, str]) -> _Column | None:
    """The column of a corruption of COCO; None where nothing is corrupted."""
    model = _MODELS[settings.get("vit", "base")]
    # The unchanged images lie below `coco-IP`, too.
    image = re.fullmatch(r"COCO_IP_([a-z_]+)_([0-9]{1,3})", PurePosixPath(settings.get("image_root", "")).name)
    if image and image[1] in IMAGE_SHIFTS:
        return _Column(_IMAGE, f"{model}:{IMAGE_SHIFTS[image[1]]}", Run(severity=int(image[2])), "i2t")
    text = PurePosixPath(settings.get("ann_root", ""))
    if text.parent.name in TEXT_SHIFTS and re.fullmatch(r"[0-9]{1,3}", text.name):
        return _Column(_TEXT, f"{model}:{TEXT_SHIFTS[text.parent.name]}", Run(severity=int(text.name)), "t2i")
    return None


def _ways(name: str, column: _Column, line: Mapping[str, object]) -> tuple[str, ...]:
    """Which directions a run was of."""
    if column.way:
        return (column.way,)
    named = {found for part in PurePosixPath(name).parts for found in re.findall(r"(?<![a-z])(i2t|t2i)(?![a-z])", part)}
    if len(named) == 1:
        return (named.pop(),)
    recalls = {way: line.get(key) for way, key in _DIRECTIONS.items()}
    wrong = [f"{_DIRECTIONS[way]}: {why}" for way, value in recalls.items() if (why := _recall(way).wrong(value))]
    if wrong:
        raise UnreadableError("; ".join(wrong))
    ways = tuple(way for way, value in recalls.items() if isinstance(value, int | float) and value > _BY_CHANCE)
    if not ways:
        raise UnreadableError("does not say which direction it is of: lay it below a folder named i2t or t2i")
    return ways
