"""Images: arrays that are resized, scaled and translated."""

from pyjax.image.resize import ResizeMethod as ResizeMethod
from pyjax.image.resize import resize as resize
from pyjax.image.resize import scale_and_translate as scale_and_translate
