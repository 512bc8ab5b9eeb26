"""Encoders that are torch networks: EfficientNet-Lite0, a seeded random VGG, and those of FID and precision/recall."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from precall.devices import check_fork, network_device
from precall.encoders.encoder import Encoder, FeatureMatrix, TensorEncoder
from precall.encoders.resizing import IMAGENET, Resizing, Scale, normalised_images, normalised_tensor, pillow_version
from precall.encoders.weights import Weights, find_weights
from precall.lazy import torch
from precall.printing import shown
from precall.samples import hashing
from precall.samples.images import DECODING
from precall.theory.arrays import Tensor

NVIDIA = "https://nvlabs-fi-cdn.nvidia.com/stylegan2-ada-pytorch/pretrained/metrics"
INCEPTION = Weights(
    "inception-2015-12-05.pt",
    f"{NVIDIA}/inception-2015-12-05.pt",
    "f58cb9b6ec323ed63459aa4fb441fe750cfe39fafad6da5cb504a16f19e958f4",
)
VGG16 = Weights("vgg16.pt", f"{NVIDIA}/vgg16.pt", "b437eb095feaeb0b83eb3fa11200ebca4548ee39a07fb944a417ddc516cc07c3")

EFFICIENTNET = Path(__file__).with_name("pretrained") / "efficientnet-lite0.safetensors"
TENSORFLOW = (127 / 255,) * 3, (128 / 255,) * 3  # (x − 127)/128, the scale of images in EfficientNet-Lite
ANTIALIAS = "299 × 299 bilinear, no antialias"
SIDE = 64
WIDTHS = ((16, 2), (32, 2), (64, 3), (128, 3), (128, 3))  # stages of VGG16, with a quarter of the channels: (c, layers)
HIDDEN = 512
PIXELS_AT_ONCE = 1 << 23  # limit per batch for networks that resize images themselves


def efficientnet(*, device: str | None = None) -> Encoder:
    """EfficientNet-Lite0, trained on ImageNet: the default for images; 384 dimensions.

    The features are mean and standard deviation over positions of each channel of the fourth and fifth stage, at 64 ×
    64 pixels. The weights are part of the package (float16, computed in float32): the encoder works offline. These
    stages see blur, noise and compression, as Inception does; the last layers are trained to ignore them.

    References: Tan and Le (2019); the weights are those of the TPU model garden, Apache-2.0 (`pretrained/NOTICE`).
    """
    from safetensors.torch import load_file

    from precall.encoders.efficientnet import POOLED, PooledStages

    with torch.device("meta"):  # without storage, so that torch's own generator is not used
        network = PooledStages()
    network.load_state_dict({name: half.float() for name, half in load_file(EFFICIENTNET).items()}, assign=True)
    stages = ", ".join(str(stage + 1) for stage in POOLED)
    protocol = {"network": f"EfficientNet-Lite0, mean and deviation of stages {stages}", "weights": state_hash(network)}
    return image_network("efficientnet", network, Resizing(SIDE, "bicubic"), TENSORFLOW, protocol, device)


def random_vgg(*, seed: int = 0, device: str | None = None) -> Encoder:
    """VGG16 with random weights: no weights file and no bias towards ImageNet; 512 dimensions. The former default.

    The network has the layers of VGG16 with a quarter of the channels, and takes images of 64 × 64 pixels. The weights
    are normal with variance 2/fan-in, drawn from NumPy's PCG64 with the given seed; there are no biases. The features
    are the activations after the ReLU of the second fully connected layer.

    References: Naeem et al. (2020), on random embeddings.
    """
    network = _random_network(seed)
    shape = f"VGG16 with channels {[width for width, _ in WIDTHS]}, fully connected {HIDDEN}, fc2"
    protocol = {"network": shape, "seed": seed, "weights": state_hash(network)}
    return image_network("random-vgg", network, Resizing(SIDE, "bicubic"), IMAGENET, protocol, device)


def inception(*, weights: str | Path | None = None, device: str | None = None) -> Encoder:
    """The Inception-v3 network of FID (Heusel et al., 2017): 2048 pool3 features, comparable with published FIDs.

    The network is a TorchScript translation of the original TensorFlow graph. It takes `uint8` images of any size and
    resizes them to 299 × 299 pixels itself, bilinearly and without antialiasing, as the original does.
    """
    return _scripted("inception", INCEPTION, weights, device, {"return_features": True}, ANTIALIAS)


def inception_probabilities(*, weights: str | Path | None = None, device: str | None = None) -> Encoder:
    """Class probabilities of the same network, shape (n, 1008), for the Inception Score (Salimans et al., 2016).

    The output bias is omitted, as in the original implementation of the score.
    """
    return _scripted("inception-probabilities", INCEPTION, weights, device, {"no_output_bias": True}, ANTIALIAS)


def inception_adm(*, weights: str | Path | None = None, device: str | None = None) -> Encoder:
    """The outputs of Inception-v3 that the ADM evaluator uses, side by side: pool, spatial and class outputs.

    `pool` are 2048 features of pool3, `spatial` the first 7 channels of `mixed_6/conv` (7 × 17 × 17 = 2023) for sFID,
    and `classes` 1008 class probabilities without the output bias for the Inception Score. The pinned network returns
    pool and class outputs; `spatial` is computed by its layers one by one, in the order of the original (height, width,
    channel), and sFID is left out if it has no such layers. `weights=` may also name a TorchScript network that takes
    `uint8` images (n, 3, h, w) and returns all three as a tuple.

    References: Dhariwal and Nichol (2021), evaluator of guided-diffusion.
    """
    path, sha256 = find_weights("inception-adm", INCEPTION, weights)
    network = _load_script(path)
    place = on_device(network, device)

    def outputs(pixels: Tensor) -> list[Tensor]:
        found = network(pixels)
        if not isinstance(found, tuple | list):  # one output at a time
            pool, classes = network(pixels, return_features=True), network(pixels, no_output_bias=True)
            found = (pool, *_spatial(network, pixels, pool), classes)
        return [one.flatten(1).float().cpu() for one in found]

    with evaluating():
        widths = [one.shape[1] for one in outputs(torch.zeros((1, 3, 64, 64), dtype=torch.uint8, device=place))]
    names = ("pool", "spatial", "classes") if len(widths) == 3 else ("pool", "classes")
    protocol = {**_scripted_protocol(ANTIALIAS, sha256), "outputs": dict(zip(names, widths, strict=True))}
    forward = partial(_by_shape, lambda pixels: torch.cat(outputs(pixels), dim=1), place)
    return Encoder("inception-adm", "images", protocol | versions(place), np.asarray, forward)


def _spatial(network: torch.nn.Module, pixels: Tensor, pool: Tensor) -> list[Tensor]:
    """The first 7 channels of `mixed_6/conv`, by the layers of the FID network; none if it has no such layers."""
    if not hasattr(network, "layers"):
        return []
    n, channels, height, width = pixels.shape
    # as TensorFlow resized in 2015: output pixel i lies at i h/299, without half a pixel of offset
    shift = torch.tensor([[1, 0, 1 / width - 1 / 299], [0, 1, 1 / height - 1 / 299]], device=pixels.device)
    grid = torch.nn.functional.affine_grid(shift.expand(n, 2, 3), [n, channels, 299, 299], align_corners=False)
    sampled = torch.nn.functional.grid_sample(pixels.float(), grid, "bilinear", "border", align_corners=False)
    x, found = (sampled - 128) / 128, []
    for name, layer in cast(Any, network.layers).named_children():
        if name == "mixed_6":
            found = [layer.conv(x)[:, :7].permute(0, 2, 3, 1)]
        x = layer(x)
    if not torch.allclose(x.flatten(1), pool, rtol=1e-2, atol=1e-3):
        raise ValueError("`weights` must be a network whose `layers` give its features; those of this file do not.")
    return found


def vgg16(*, weights: str | Path | None = None, device: str | None = None) -> Encoder:
    """The VGG16 of improved precision and recall (Kynkäänniemi et al., 2019): 4096 features of fc2.

    The TorchScript network takes `uint8` images of any size and resizes them to 224 × 224 pixels itself.
    """
    return _scripted("vgg16", VGG16, weights, device, {"return_features": True}, "224 × 224")


def image_network(
    name: str, network: Any, resizing: Resizing, scale: Scale, protocol: dict[str, Any], device: str | None,
    read: Callable[[Tensor], Any] | None = None,
) -> Encoder:  # fmt: skip
    """Create an encoder from a network that takes normalised images of one size; `read` returns its features."""
    place, read = on_device(network, device), read or network
    protocol = resizing.protocol | {"mean": list(scale[0]), "std": list(scale[1])} | protocol | versions(place)

    def forward(images: list[Any]) -> FeatureMatrix:
        with evaluating():
            pixels = torch.from_numpy(normalised_images(images, *scale)).to(place, memory_format=torch.channels_last)
            return np.asarray(read(pixels).float().cpu())

    def features(images: Tensor) -> Tensor:
        found: Tensor = read(normalised_tensor(resizing.of_tensor(images), *scale)).float()
        return found

    return Encoder(name, "images", protocol, resizing, forward, TensorEncoder(network, features))


def on_device(network: torch.nn.Module, device: str | None) -> torch.device:
    """Freeze a network, move it to the requested device and return the device."""
    place = torch.device(network_device(device))
    network.eval()
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    network.to(place)
    return place


@contextmanager
def evaluating() -> Iterator[None]:
    """Disable gradients; on CUDA, use full float32 precision and deterministic kernels."""
    flags = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
    check_fork()
    with torch.inference_mode(), flags:
        yield


def state_hash(network: torch.nn.Module) -> str:
    """SHA-256 of a network's parameters and buffers: names, dtypes, shapes and bytes."""
    parts = []
    for name, tensor in sorted(network.state_dict().items()):
        data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        parts += [name, f"{tensor.dtype} {tuple(tensor.shape)}", hashing.of_array(data)]
    return hashing.combined(parts)


def _random_network(seed: int) -> torch.nn.Module:
    """VGG16 with He initialisation: the variance 2/fan-in preserves the scale of the activations through ReLUs."""
    from torch import nn

    rng = np.random.Generator(np.random.PCG64(seed))

    # the layers are created without storage (device "meta"), so that torch's own generator is not used
    def he(layer: nn.Conv2d | nn.Linear) -> nn.Module:
        shape = tuple(layer.weight.shape)
        values = rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        layer.weight = nn.Parameter(torch.from_numpy(values.astype(np.float32)), requires_grad=False)
        return layer

    layers: list[nn.Module] = []
    channels = 3
    for width, depth in WIDTHS:
        for _ in range(depth):
            layers += [he(nn.Conv2d(channels, width, 3, padding=1, bias=False, device="meta")), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    flat = channels * (SIDE >> len(WIDTHS)) ** 2
    layers += [nn.Flatten(), he(nn.Linear(flat, HIDDEN, bias=False, device="meta")), nn.ReLU(inplace=True)]
    layers += [he(nn.Linear(HIDDEN, HIDDEN, bias=False, device="meta")), nn.ReLU(inplace=True)]
    network: nn.Module = nn.Sequential(*layers).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def _scripted(
    name: str, pinned: Weights, given: str | Path | None, device: str | None, arguments: dict[str, bool], resize: str
) -> Encoder:
    """Create an encoder from a TorchScript network that takes `uint8` images (n, 3, h, w) and resizes them itself."""
    path, sha256 = find_weights(name, pinned, given)
    network = _load_script(path)
    place = on_device(network, device)
    called = partial(network, **arguments)
    forward = partial(_by_shape, called, place)
    protocol = {**_scripted_protocol(resize, sha256), "arguments": arguments}
    schema: Any = getattr(network.forward, "schema", None)
    several = schema is not None and schema.returns[0].type.kind() in ("ListType", "TupleType")
    tensors = TensorEncoder(network, lambda images: called(images).float(), maps=several)
    return Encoder(name, "images", protocol | versions(place), np.asarray, forward, tensors)


def script_encoder(path: str | Path) -> Encoder:
    """An encoder from a TorchScript file of the user, which must be trusted.

    The network takes images (n, 3, h, w), as `uint8` or as floats from 0 to 255, and returns features (n, d), or a list
    of feature maps (n, c, h, w) for a critic. It resizes and normalises the images itself.
    """
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"`encoder` must be a TorchScript file that exists; got `{shown(str(file))}`.")
    return _scripted(file.name, INCEPTION, file, "cpu", {}, "as it does")


def _scripted_protocol(resize: str, sha256: str) -> dict[str, Any]:
    resized = f"by the network: {resize}"
    return {"decoding": DECODING, "pillow": pillow_version(), "resize": resized, "weights": sha256}


def _by_shape(network: Callable[[Tensor], Tensor], place: torch.device, images: list[Any]) -> FeatureMatrix:
    """Features of images of any size, by a network that takes images of one size at a time."""
    rows: dict[int, Any] = {}
    with evaluating():
        for shape in dict.fromkeys(image.shape for image in images):
            same = [i for i, image in enumerate(images) if image.shape == shape]
            size = max(1, PIXELS_AT_ONCE // (shape[0] * shape[1]))
            for group in (same[start : start + size] for start in range(0, len(same), size)):
                stack = np.stack([images[i] for i in group]).transpose(0, 3, 1, 2)
                output = network(torch.from_numpy(np.ascontiguousarray(stack)).to(place))
                rows |= dict(zip(group, np.asarray(output.float().cpu()), strict=True))
    return np.stack([rows[i] for i in range(len(images))])


def _load_script(path: Path) -> torch.nn.Module:
    """Load a TorchScript archive, which contains its own bytecode rather than a Python pickle."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # newer torch prefers torch.export; the files are older
            network: torch.nn.Module = torch.jit.load(str(path), map_location="cpu")  # type: ignore[no-untyped-call]
            return network
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"`weights` must be a TorchScript file; `{path}` is not ({reason}).") from None


def versions(place: torch.device) -> dict[str, str]:
    """The version of torch and the type of the device, since kernels differ between them."""
    return {"torch": torch.__version__, "device": place.type}
