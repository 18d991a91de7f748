"""The main job: train a classifier on real handwritten digits, and show every stage of its
compilation.

Run `python -m pyjax.tools.demo --help` for its flags; every pyjax option is a flag, too
(`--jax_enable_x64=true`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import app, flags

import pyjax
import pyjax.numpy as jnp
from xla_backend.hlo.printer import module_to_text

FLAGS = flags.FLAGS
flags.DEFINE_integer(
    "epochs", None, "passes over the training data; 60, or 12 on an emulator", lower_bound=1
)
flags.DEFINE_integer("batch_size", 128, "images per step", lower_bound=1)
flags.DEFINE_integer("hidden", 128, "width of the hidden layer", lower_bound=1)
flags.DEFINE_float(
    "learning_rate", None, "step size of gradient descent; 0.2, or 0.5 on an emulator", 0.0
)
flags.DEFINE_integer("seed", 0, "seed of the parameters and of the order of the data")
flags.DEFINE_string("figure", "demo.png", "where to write the figure")

Params = dict[str, Any]


class Schedule(NamedTuple):
    """How long to train, how fast, and how many steps to time afterwards."""

    epochs: int
    learning_rate: float
    timed_steps: int


def schedule_of(platform: str) -> Schedule:
    """What the flags say, and where they say nothing, what suits the platform: an emulator takes
    some 1000 times as long for a step."""
    usual = Schedule(12, 0.5, 5) if _emulates(platform) else Schedule(60, 0.2, 200)
    epochs, rate = FLAGS.epochs, FLAGS.learning_rate
    return usual._replace(
        epochs=usual.epochs if epochs is None else epochs,
        learning_rate=usual.learning_rate if rate is None else rate,
    )


def _emulates(platform: str) -> bool:
    return platform.endswith("emulator")


def load_digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """UCI handwritten digits: (train images [n, 64] in 0..1, train labels [n], test images, test
    labels).
    """
    from sklearn.datasets import load_digits as load
    from sklearn.model_selection import train_test_split

    digits = load()
    images = (digits.data / 16.0).astype(np.float32)
    labels = digits.target.astype(np.int32)
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=0.2, random_state=0, stratify=labels
    )
    return train_x, train_y, test_x, test_y


def init_params(key: pyjax.Array, hidden: int) -> Params:
    """Weights of a network 64 → hidden → 10, scaled so that activations keep their size."""
    first, second = pyjax.random.split(key)
    return {
        "w1": pyjax.random.normal(first, (64, hidden)) * (2 / 64) ** 0.5,
        "b1": jnp.zeros(hidden),
        "w2": pyjax.random.normal(second, (hidden, 10)) * (1 / hidden) ** 0.5,
        "b2": jnp.zeros(10),
    }


def logits(params: Params, image: pyjax.Array) -> pyjax.Array:
    """Scores of the ten digits for one image."""
    hidden = jnp.tanh(image @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]


def example_loss(params: Params, image: pyjax.Array, label: pyjax.Array) -> pyjax.Array:
    """Cross entropy of one image; written for one, vmapped over a batch."""
    return -pyjax.nn.log_softmax(logits(params, image))[label]


def loss(params: Params, images: pyjax.Array, labels: pyjax.Array) -> pyjax.Array:
    """Mean cross entropy of a batch."""
    return pyjax.vmap(example_loss, in_axes=(None, 0, 0))(params, images, labels).mean()


@pyjax.jit
def train_step(
    params: Params, images: pyjax.Array, labels: pyjax.Array, learning_rate: float
) -> tuple[Params, pyjax.Array]:
    """One step of gradient descent: (new parameters, loss before the step)."""
    value, gradient = pyjax.value_and_grad(loss)(params, images, labels)
    update = lambda p, g: p - learning_rate * g
    return pyjax.tree.map(update, params, gradient), value


@pyjax.jit
def predict(params: Params, images: pyjax.Array) -> pyjax.Array:
    """Most likely digit of each image."""
    return jnp.argmax(pyjax.vmap(logits, in_axes=(None, 0))(params, images), axis=-1)


def numpy_step(
    params: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray, learning_rate: float
) -> tuple[dict[str, np.ndarray], float]:
    """`train_step` written by hand in NumPy, gradients included, for comparison."""
    n = len(x)
    hidden = np.tanh(x @ params["w1"] + params["b1"])
    scores = hidden @ params["w2"] + params["b2"]
    scores -= scores.max(axis=1, keepdims=True)
    probabilities = np.exp(scores)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    value = -np.log(probabilities[np.arange(n), y]).mean()
    d_scores = probabilities
    d_scores[np.arange(n), y] -= 1
    d_scores /= n
    d_hidden = (d_scores @ params["w2"].T) * (1 - hidden * hidden)
    gradient = {
        "w1": x.T @ d_hidden,
        "b1": d_hidden.sum(axis=0),
        "w2": hidden.T @ d_scores,
        "b2": d_scores.sum(axis=0),
    }
    return {k: params[k] - learning_rate * gradient[k] for k in params}, float(value)


def batches(
    x: np.ndarray, y: np.ndarray, size: int, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Full batches in a new random order."""
    order = rng.permutation(len(x))
    for start in range(0, len(x) - size + 1, size):
        chosen = order[start : start + size]
        yield x[chosen], y[chosen]


def train(
    params: Params, x: np.ndarray, y: np.ndarray, epochs: int, size: int, rate: float, seed: int
) -> tuple[Params, list[float]]:
    """Train with a progress bar: (parameters, mean loss of each epoch)."""
    from tqdm import trange

    rng = np.random.default_rng(seed)
    history = []
    progress = trange(epochs, desc="training", unit="epoch", mininterval=0.5)
    for _ in progress:
        losses = []
        for images, labels in batches(x, y, size, rng):
            params, value = train_step(params, images, labels, rate)
            losses.append(value)
        history.append(float(np.mean(losses)))
        progress.set_postfix(loss=f"{history[-1]:.4f}")
    return params, history


def median_time(step: Any, repeats: int) -> float:
    """Median seconds of `step()`."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def show(title: str, text: str, limit: int = 40) -> None:
    """Print a stage of compilation, at most `limit` lines of it."""
    lines = text.rstrip().splitlines()
    print(f"\n--- {title} " + "-" * max(0, 90 - len(title)))
    print("\n".join(lines[:limit]))
    if len(lines) > limit:
        print(f"... ({len(lines) - limit} more lines)")


def show_stages(params: Params, x: np.ndarray, y: np.ndarray) -> None:
    """Print jaxpr, optimised HLO and the loop IR of one fused kernel of the loss."""
    traced = pyjax.jit(loss).trace(params, x, y)
    show("jaxpr of the loss", traced.as_text())
    compiled = traced.lower().compile()
    optimised = compiled.runtime_executable().module
    show("optimised HLO of the loss", module_to_text(optimised, metadata=False), limit=100)
    platform = pyjax.default_backend()
    if platform == "cpu" or _emulates(platform):
        kernels = compiled.as_text("loops").split("\n\n")
        show("loop IR of its largest fused kernel", max(kernels, key=len))


def write_figure(
    path: str, history: Sequence[float], images: np.ndarray, truth: np.ndarray, guess: np.ndarray
) -> None:
    """Loss curve, and sample predictions with the mistakes first."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(11, 4.5), layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=(1, 1.1))
    left, right = halves
    axes = left.subplots()
    axes.semilogy(np.arange(1, len(history) + 1), history, color="tab:blue")
    axes.set(xlabel="epoch", ylabel="mean cross entropy", title="training loss")
    axes.grid(alpha=0.3, which="both")
    order = np.argsort(guess == truth, kind="stable")[:15]
    right.suptitle("test images: predicted digit (red: wrong, with the truth)")
    for cell, i in zip(right.subplots(3, 5).flat, order):
        wrong = guess[i] != truth[i]
        cell.imshow(images[i].reshape(8, 8), cmap="gray_r")
        title = f"{guess[i]} (is {truth[i]})" if wrong else f"{guess[i]}"
        cell.set_title(title, color="tab:red" if wrong else "black", fontsize=10)
        cell.set_axis_off()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(argv: Sequence[str]) -> None:
    """Train, report, draw."""
    if len(argv) > 1:
        raise app.UsageError(f"unexpected arguments: {argv[1:]}")
    train_x, train_y, test_x, test_y = load_digits()
    size = min(FLAGS.batch_size, len(train_x))
    epochs, rate, timed_steps = schedule_of(pyjax.default_backend())
    params = init_params(pyjax.random.key(FLAGS.seed), FLAGS.hidden)
    first_x, first_y = train_x[:size], train_y[:size]
    show_stages(params, first_x, first_y)

    start = time.perf_counter()
    pyjax.block_until_ready(train_step(params, first_x, first_y, rate))
    compile_seconds = time.perf_counter() - start
    print(f"\nepochs: {epochs}, learning rate: {rate}")
    params, history = train(params, train_x, train_y, epochs, size, rate, FLAGS.seed)

    device_x, device_y = jnp.asarray(first_x), jnp.asarray(first_y)
    host_params = {k: np.asarray(v) for k, v in params.items()}
    ours = median_time(
        lambda: pyjax.block_until_ready(train_step(params, device_x, device_y, rate)), timed_steps
    )
    numpys = median_time(lambda: numpy_step(host_params, first_x, first_y, rate), 200)

    guess = np.asarray(predict(params, test_x))
    write_figure(FLAGS.figure, history, test_x, test_y, guess)
    print(f"\ndevice: {pyjax.devices()[0]}, parameters: {params['w1'].dtype}")
    print(f"first step (trace, compile, run): {compile_seconds * 1e3:.0f} ms")
    print(f"time per step: {ours * 1e6:.0f} us (median of {timed_steps})")
    print(f"the same step in NumPy: {numpys * 1e6:.0f} us")
    print(f"figure: {FLAGS.figure}")
    print(f"test accuracy: {np.mean(guess == test_y):.2f}")


if __name__ == "__main__":
    pyjax.config.config_with_absl()
    app.run(main)
