"""Recipes of operators that move elements: shapes, slices, gathers, scatters, padding, resizing."""

from __future__ import annotations

from burnx.conformance.cases.recipe import Recipe, recipes_for

RECIPES = [
    Recipe("Reshape", "2x3x2 | =[3, -1]", {"shape": [3, -1]}),
    Recipe("Reshape", "2x3x2 | =[0, -1]", {"shape": [0, -1]}, name="kept"),
    Recipe("Flatten", "2x3x2", {"axis": 2}),
    Recipe("Squeeze", "2x1x3x1 | =[1, -1]", {"axes": [1, 3]}),
    Recipe("Squeeze", "2x1x3x1", name="all"),
    Recipe("Unsqueeze", "2x3 | =[0, 3]", {"axes": [0, 3]}),
    Recipe("Transpose", "2x3x2", {"perm": [2, 0, 1]}),
    Recipe("Transpose", "2x3x2", name="reversed"),
    Recipe("Expand", "3x1 | =[2, 1, 4]"),
    Recipe("Tile", "2x3 | =2 | =1", until=5),
    Recipe("Tile", "2x3 | =[2, 2]", since=6),
    Recipe("Concat", "2x3 | 2x2", {"axis": 1}),
    Recipe("Split", "4x2", {"axis": 0, "split": [1, 3]}, outputs=2, until=12),
    Recipe("Split", "4x2 | =[1, 3]", outputs=2, since=13),
    Recipe("Split", "5x2", {"num_outputs": 2}, outputs=2, since=18, name="uneven"),
    Recipe("Slice", "4x5", {"starts": [1, 0], "ends": [3, -1], "axes": [0, 1]}, until=9),
    Recipe(
        "Slice",
        "4x5 | =[1, -1] | =[3, -9] | =[0, 1] | =[1, -2]",
        since=10,
        types={"Tind": "tensor(int64)"},
    ),
    Recipe("Gather", "3x4 | 2x2 below 3", types={"Tind": "tensor(int64)"}),
    Recipe(
        "Gather",
        "3x4 | =[-1, 0]",
        {"axis": 1},
        since=11,
        types={"Tind": "tensor(int64)"},
        name="negative",
    ),
    Recipe("GatherElements", "3x4 | 2x4 below 3", types={"Tind": "tensor(int64)"}),
    Recipe("GatherND", "3x4 | =[[0, 1], [2, 3]]"),
    Recipe("GatherND", "2x3x4 | =[[[1]], [[2]]]", {"batch_dims": 1}, since=12, name="batch"),
    *recipes_for(
        "Scatter ScatterElements",
        "3x3 | =[[1, 0, 2], [0, 2, 1]] | 2x3",
        types={"Tind": "tensor(int64)"},
    ),
    *[
        Recipe(
            "ScatterElements",
            "3x3 | =[[1, 1, 2]] | 1x3",
            {"reduction": how},
            since=since,
            types={"Tind": "tensor(int64)"},
            name=how,
        )
        for how, since in (("add", 16), ("mul", 16), ("max", 18), ("min", 18))
    ],
    Recipe("ScatterND", "4x2 | =[[2], [0]] | 2x2"),
    *[
        Recipe("ScatterND", "4x2 | =[[1], [1]] | 2x2", {"reduction": how}, since=since, name=how)
        for how, since in (("add", 16), ("mul", 16), ("max", 18), ("min", 18))
    ],
    Recipe("TensorScatter", "2x1x4x2 | 2x1x2x2 | =[1, 0]"),
    Recipe("Pad", "2x3", {"paddings": [0, 1, 1, 0], "pads": [0, 1, 1, 0], "value": 1.5}, until=10),
    Recipe("Pad", "2x3 | =[0, 1, 1, 0] | =1", since=11),
    *[
        Recipe("Pad", "3x4 | =[1, 2, 0, 1]", {"mode": mode}, since=since, name=mode)
        for mode, since in (("reflect", 11), ("edge", 11), ("wrap", 19))
    ],
    Recipe("Pad", "3x4 | =[1, 2] | =1 | =[-1]", since=18, name="axes"),
    Recipe("CenterCropPad", "4x3 | =[3, 5]", types={"Tind": "tensor(int64)"}),
    Recipe("DepthToSpace", "1x8x2x2", {"blocksize": 2}),
    Recipe("DepthToSpace", "1x8x2x2", {"blocksize": 2, "mode": "CRD"}, since=11, name="CRD"),
    Recipe("SpaceToDepth", "1x2x4x4", {"blocksize": 2}),
    Recipe("ReverseSequence", "4x2x3 | =[4, 2]"),
    Recipe("Trilu", "2x3x3 | =1", {"upper": 0}),
    Recipe("Trilu", "2x3x3", name="upper"),
    Recipe("Shape", "2x3x4"),
    Recipe("Shape", "2x3x4", {"start": 1, "end": -1}, since=15, name="part"),
    Recipe("Size", "2x3x4"),
    Recipe(
        "OneHot",
        "=[0, 2, -1] | =3 | =[0, 1]",
        {"axis": 0},
        types={"T1": "tensor(int64)", "T2": "tensor(int64)"},
    ),
    Recipe("Col2Im", "1x4x4 | =[3, 3] | =[2, 2]"),
    Recipe(
        "Upsample",
        "1x1x2x3",
        {"height_scale": 2.0, "width_scale": 2.0, "scales": [1.0, 1.0, 2.0, 2.0]},
        until=8,
    ),
    Recipe("Upsample", "1x1x2x3 | =[1, 1, 2, 2]", since=9),
    Recipe("Upsample", "1x1x2x3 | =[1, 1, 2, 2]", {"mode": "linear"}, since=9, name="linear"),
    Recipe("Resize", "1x1x2x3 | =[1, 1, 2, 2]", until=10),
    Recipe("Resize", "1x1x2x3 | =[1, 1, 2, 2]", {"mode": "linear"}, until=10, name="linear"),
    Recipe(
        "Resize", "1x1x2x3 | =[0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0] | =[1, 1, 2, 2]", since=11
    ),
    Recipe(
        "Resize",
        "1x1x4x4 | =[0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0] | =[1, 1, 0.6, 1.5]",
        {"mode": "linear"},
        since=11,
        name="linear",
    ),
    Recipe(
        "Resize",
        "1x1x4x4 | - | - | =[1, 1, 7, 6]",
        {"mode": "cubic", "coordinate_transformation_mode": "align_corners"},
        since=13,
        name="cubic",
    ),
    Recipe("GridSample", "1x1x3x4 | 1x2x3x2 unit", {"align_corners": 1}, tied={"T2": "T1"}),
    Recipe("AffineGrid", "1x2x3 | =[1, 1, 2, 3]"),
    Recipe("StringConcat", "2x3 | 3"),
    Recipe(
        "StringNormalizer",
        "=['Monday', 'tuesday', 'Wednesday']",
        {"case_change_action": "UPPER", "stopwords": ["monday"]},
    ),
    Recipe("StringSplit", "=['a,b', 'c', ',d,']", {"delimiter": ","}, outputs=2),
    Recipe("RegexFullMatch", "=['www.a.com', 'a@b', '']", {"pattern": r"www\.[\w]+\.com"}),
    Recipe(
        "TfIdfVectorizer",
        "=[1, 1, 3, 3, 3, 7, 8]",
        {
            "mode": "TF",
            "min_gram_length": 1,
            "max_gram_length": 2,
            "max_skip_count": 0,
            "ngram_counts": [0, 2],
            "ngram_indexes": [0, 1, 2, 3],
            "pool_int64s": [3, 7, 3, 3, 7, 8],
        },
        types={"T": "tensor(int64)"},
    ),
]
