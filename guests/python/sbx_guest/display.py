# SPDX-License-Identifier: Apache-2.0
"""Rich output: objects with `_repr_*_` methods, figures of matplotlib, and the `display` built-in."""

import sys

from . import jsontext
from .frames import DISPLAY
from .text import bounded_repr, class_name, safe_str

DATA_MAX = (16 << 20) - (64 << 10)
METADATA_MAX = 32 << 10
FIGURES_MAX = 64
IMAGE_MAX = 500_000  # bytes of an image that the host shows in a result
_TRIES = 4
_DPI_MIN = 20
_METHODS = (
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_latex_", "text/latex"),
)
_PLAIN = frozenset((int, float, complex, bool, str, bytes, list, dict, tuple, set, frozenset, type(None), type))


class Display:
    """Sends display frames over a channel."""

    __slots__ = ("_channel",)

    def __init__(self, channel):
        self._channel = channel

    def send(self, mime, data, metadata=None):
        """One piece of data: str or bytes (base64 text is decoded for images). False when it is no such thing."""
        if isinstance(data, str):
            data = _image_bytes(data) if _is_image(mime) else jsontext.clean(data).encode("utf-8")
        elif not isinstance(data, (bytes, bytearray, memoryview)):
            if not mime.endswith("json"):
                return False
            text = jsontext.dumps_value(data, DATA_MAX)
            if text is None:
                return False
            data = text.encode("ascii")
        data = bytes(data)
        if len(data) > DATA_MAX:
            sys.stderr.write(f"display: {mime} of {len(data)} bytes left out, more than {DATA_MAX}\n")
            return True
        header = {"mime": mime, "metadata": {}}
        if type(metadata) is dict:
            told = jsontext.dumps_value(metadata, METADATA_MAX)
            if told is not None:
                header["metadata"] = metadata
        self._channel.send(DISPLAY, jsontext.dumps(header), data)
        return True

    def rich(self, value):
        """Every representation that the object itself offers. False when it offers none."""
        kind = type(value)
        if kind in _PLAIN or isinstance(value, type):
            return False
        found = self._bundle(value, kind)
        if found:
            return True
        for name, mime in _METHODS:
            if getattr(kind, name, None) is None:
                continue
            data, metadata = _call(value, name)
            if data is not None:
                found = self.send(mime, data, metadata) or found
        return found or self._unmanaged_figure(value)

    def _bundle(self, value, kind):
        if getattr(kind, "_repr_mimebundle_", None) is None:
            return False
        bundle, metadata = _call(value, "_repr_mimebundle_")
        if type(bundle) is not dict:
            return False
        found = False
        for mime, data in list(bundle.items())[:32]:
            if type(mime) is not str or not _good_mime(mime) or mime == "text/plain":
                continue
            part = metadata.get(mime) if type(metadata) is dict else None
            found = self.send(mime, data, part) or found
        return found

    def _unmanaged_figure(self, value):
        """A Figure that pyplot does not know; the others come at the end of the execution."""
        module = sys.modules.get("matplotlib.figure")
        if module is None or not isinstance(value, module.Figure):
            return False
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None or not any(pyplot.figure(number) is value for number in pyplot.get_fignums()):
            self._figure(value)
        return True

    def _figure(self, figure):
        data = _render(figure, None)
        if len(data) > IMAGE_MAX:
            data = _render_smaller(figure, data)
        self.send("image/png", data)

    def show_figures(self):
        """Sends the open figures of pyplot and closes them."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None or not hasattr(pyplot, "get_fignums"):
            return
        numbers = pyplot.get_fignums()
        try:
            for number in numbers[:FIGURES_MAX]:
                self._figure(pyplot.figure(number))
            if len(numbers) > FIGURES_MAX:
                sys.stderr.write(f"display: {len(numbers) - FIGURES_MAX} figures left out, more than {FIGURES_MAX}\n")
        finally:
            if numbers:
                pyplot.close("all")

    def patch_pyplot(self, pyplot):
        """plt.show() shows the figures at once, each as it is at that moment."""

        def show(*_args, **_kwargs):
            self.show_figures()

        pyplot.show = show

    def display(self, *objects):
        """Shows objects: as images, HTML, ... where they can be, else as text."""
        for item in objects:
            if not self.rich(item):
                sys.stdout.write((item if type(item) is str else bounded_repr(item)) + "\n")


def close_figures():
    """Forgets the open figures: after an interrupt they would turn up in a later execution."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None and hasattr(pyplot, "close"):
        pyplot.close("all")


def _render(figure, dpi):
    from io import BytesIO

    buffer = BytesIO()
    options = {} if dpi is None else {"dpi": dpi}
    figure.savefig(buffer, format="png", bbox_inches="tight", **options)
    return buffer.getvalue()


def _dpi(figure):
    """What savefig() takes when it is not told."""
    setting = sys.modules["matplotlib"].rcParams["savefig.dpi"]
    return float(figure.dpi if setting == "figure" else setting)


def _render_smaller(figure, data):
    """The figure with fewer dots per inch, so that whoever asked can be shown it; as it is if that does not help."""
    before = dpi = _dpi(figure)
    for _ in range(_TRIES):
        # The size grows a little slower than the number of dots, so this comes below at the first or second try.
        dpi *= 0.9 * (IMAGE_MAX / len(data)) ** 0.5
        if dpi < _DPI_MIN:
            break
        data = _render(figure, dpi)
        if len(data) <= IMAGE_MAX:
            sys.stderr.write(f"display: figure drawn with {dpi:.0f} instead of {before:.0f} dpi to keep it small\n")
            break
    return data


def _is_image(mime):
    return mime.startswith("image/") and not mime.endswith("xml")


def _image_bytes(text):
    from binascii import a2b_base64

    return a2b_base64(text)


def _good_mime(mime):
    return len(mime) <= 127 and mime.isascii() and mime.isprintable() and "/" in mime and " " not in mime


def _call(value, name):
    """(data, metadata) of a representation; a failing method is told on standard error and counts as none."""
    try:
        data = getattr(value, name)()
    except Exception as error:  # noqa: BLE001
        kind = class_name(type(value))
        sys.stderr.write(f"display: {kind}.{name} raised {class_name(type(error))}: {safe_str(error, 500)}\n")
        return None, None
    if type(data) is tuple and len(data) == 2:
        return data
    return data, None
