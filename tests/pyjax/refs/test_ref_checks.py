"""No function gets one mutable reference by two names, and none returns one (option
`jax_mutable_array_checks`)."""

import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax


def ref():
    return pyjax.new_ref(jnp.arange(3.0))


@pyjax.custom_vjp
def with_rule(a, b):
    return a[0] + b[0]


with_rule.defvjp(lambda a, b: (a[0] + b[0], None), lambda res, g: (None, None))


@pyjax.custom_vjp
def returning(a):
    return a


returning.defvjp(lambda a: (a, None), lambda res, g: (None,))


def two(a, b):
    return a[1] + b[2]


ALIASES = {
    "jit": (lambda r: pyjax.jit(two)(r, r), "argument 'b' and as argument 'a'"),
    "jit-tree": (
        lambda r: pyjax.jit(lambda t: t["x"][1] + t["y"][2])({"x": r, "y": r}),
        r"t\['x'\]",
    ),
    "jit-keyword": (lambda r: pyjax.jit(two)(r, b=r), "argument 'b' and as argument 'a'"),
    "closed over": (lambda r: pyjax.jit(lambda a: two(a, r))(r), "argument 'a' and closed over"),
    "inner jit": (lambda r: pyjax.jit(lambda s: pyjax.jit(two)(s, s))(r), "argument 'b' and as"),
    "vmap": (lambda r: pyjax.vmap(lambda a, b: a[...] + b[...])(r, r), "'b' and as argument 'a'"),
    "scan": (lambda r: lax.scan(lambda c, x: (c, x[0][...]), 0.0, (r, r)), r"argument 'x\[1\]'"),
    "scan, closed over": (
        lambda r: lax.scan(lambda c, x: (c, x[...] + r[0]), 0.0, r),
        "argument 'x' and closed over",
    ),
    "cond": (lambda r: lax.cond(True, two, two, r, r), "argument 'b' and as argument 'a'"),
    "cond, closed over": (
        lambda r: lax.cond(True, lambda a: two(a, r), lambda a: a[0], r),
        "argument 'a' and closed over",
    ),
    "switch": (lambda r: lax.switch(1, [two, two], r, r), "argument 'b' and as argument 'a'"),
    "custom_vjp": (lambda r: with_rule(r, r), "argument 'b' and as argument 'a'"),
}


@pytest.mark.parametrize("name", ALIASES)
def test_one_reference_by_two_names(name) -> None:
    call, text = ALIASES[name]
    with pytest.raises(ValueError, match="only one reference to a mutable array") as caught:
        call(ref())
    caught.match(text)
    caught.match("as argument|closed over")


@pytest.mark.parametrize("name", ALIASES)
def test_unchecked(name) -> None:
    with pyjax._options.mutable_array_checks(False):
        ALIASES[name][0](ref())


def test_checked_at_each_call() -> None:
    f = pyjax.jit(two)
    a, b = ref(), ref()
    assert float(f(a, b)) == 3.0
    with pytest.raises(ValueError, match="argument 'b' and as argument 'a'"):
        f(a, a)
    g = pyjax.jit(lambda x: two(x, a))
    assert float(g(b)) == 3.0
    with pytest.raises(ValueError, match="argument 'x' and closed over"):
        g(a)


def test_memory_stays_whole_without_checks() -> None:
    """What is read through one name may be old then, and what is written last stays."""
    r = ref()

    @pyjax.jit
    def program(a, b):
        a[0] = 10.0
        b[1] = 20.0

    with pyjax._options.mutable_array_checks(False):
        for _ in range(20):
            program(r, r)
    assert r[...].tolist() in ([10, 1, 2], [0, 20, 2], [10, 20, 2])


RETURNS = {
    "an argument": (lambda r: pyjax.jit(lambda a: a)(r), "passed in as the argument a"),
    "closed over": (lambda r: pyjax.jit(lambda: r)(), "it is closed over"),
    "made": (lambda r: pyjax.jit(lambda: pyjax.new_ref(1.0))(), "it was created on line test_ref"),
    "in a tree": (
        lambda r: pyjax.jit(lambda: {"k": (1.0, pyjax.new_ref(1.0))})(),
        r"at output tree path result\['k'\]\[1\]",
    ),
    "make_jaxpr": (lambda r: pyjax.make_jaxpr(lambda a: a)(r), "traced for make_jaxpr returned"),
    "eval_shape": (lambda r: pyjax.eval_shape(lambda a: a, r), "traced for eval_shape returned"),
    "carry of scan": (
        lambda r: lax.scan(lambda c, x: (c, None), r, None, length=2),
        "result\\[0\\], but mutable",
    ),
    "ys of scan": (lambda r: lax.scan(lambda c, x: (c, r), 0.0, None, length=2), "result\\[1\\]"),
    "while_loop": (
        lambda r: lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, c[1]), (0, r)),
        "passed in as the argument c\\[1\\]",
    ),
    "fori_loop": (lambda r: lax.fori_loop(0, 3, lambda i, c: c, r), "cannot be returned"),
    "cond": (lambda r: lax.cond(True, lambda a: a, lambda a: a, r), "traced for cond returned"),
    "checkpoint": (lambda r: pyjax.checkpoint(lambda a: a)(r), "traced for checkpoint returned"),
    "custom_vjp": (lambda r: returning(r), "custom_vjp function returning returned a mutable"),
}


@pytest.mark.parametrize("name", RETURNS)
def test_returned(name) -> None:
    call, text = RETURNS[name]
    with pytest.raises(ValueError, match="cannot be returned") as caught:
        call(ref())
    caught.match(text)


@pytest.mark.parametrize("name", ["carry of scan", "while_loop", "fori_loop"])
def test_loops_carry_no_references_without_checks_either(name) -> None:
    with pyjax._options.mutable_array_checks(False):
        with pytest.raises(TypeError, match="got a Ref in its carry"):
            RETURNS[name][0](ref())


def test_returned_without_checks_is_what_it_holds() -> None:
    with pyjax._options.mutable_array_checks(False):
        assert pyjax.jit(lambda a: (pyjax.ref.set(a, 0, 5.0), a)[1])(ref()).tolist() == [5, 1, 2]
        assert float(pyjax.jit(lambda: pyjax.new_ref(2.0))()) == 2.0


def test_messages_have_four_parts() -> None:
    r = ref()
    for call in (lambda: pyjax.jit(two)(r, r), lambda: pyjax.jit(lambda a: a)(r)):
        with pytest.raises(ValueError) as caught:
            call()
        what, where, why, fix = str(caught.value).split("\n  ")
        assert "Ref{float32[3]}" in what and "test_ref_checks.py:" in what + where
        assert why and fix[0].isupper()


def test_conditions_write_nothing() -> None:
    r = ref()

    def condition(c):
        r[0] = c
        return c < 3.0

    with pytest.raises(NotImplementedError, match="the condition of a while_loop writes to a Ref"):
        lax.while_loop(condition, lambda c: c + 1, 0.0)


def test_references_that_leave_their_function() -> None:
    kept = []
    pyjax.jit(lambda: (kept.append(pyjax.new_ref(1.0)), 1.0)[1])()
    with pytest.raises(pyjax.errors.UnexpectedTracerError, match=r"created at test_ref_checks\.py"):
        kept[0][...]
    with pytest.raises(pyjax.errors.UnexpectedTracerError):
        kept[0][...] = 2.0


# -- where cotangents go ---------------------------------------------------------------------------


def squares(x, y):
    return jnp.sum(x**2 * y["a"])


def pullback():
    return pyjax.vjp(squares, jnp.arange(3.0), {"a": jnp.ones(3)})[1]


def test_cotangents_are_added_to_references() -> None:
    a, b = pyjax.new_ref(jnp.ones(3)), pyjax.new_ref(jnp.zeros(3))
    results = pullback().with_refs(a, {"a": b})(1.0)
    assert results == (pyjax.ad.GradRef(), {"a": pyjax.ad.GradRef()})
    assert a[...].tolist() == [1, 3, 5] and b[...].tolist() == [0, 1, 4]


def test_cotangents_that_are_returned_or_not_wanted() -> None:
    a = pyjax.new_ref(jnp.ones(3))
    first, second = pullback().with_refs(a, {"a": pyjax.ad.GradValue()})(2.0)
    assert first == pyjax.ad.GradRef() and second["a"].tolist() == [0, 2, 8]
    first, second = pullback().with_refs(pyjax.ad.DontWant(), {"a": a})(1.0)
    assert first == pyjax.ad.DidntWant() and second["a"] == pyjax.ad.GradRef()
    assert a[...].tolist() == [1, 6, 13]


def test_accumulation_in_a_loop_of_a_compiled_function() -> None:
    total = pyjax.new_ref(jnp.zeros(()))

    @pyjax.jit
    def train(w, xs):
        def step(c, x):
            loss, back = pyjax.vjp(lambda w: (w * x) ** 2, w)
            back.with_refs(total)(jnp.ones_like(loss))
            return c + loss, None

        return lax.scan(step, 0.0, xs)[0]

    assert float(train(2.0, jnp.array([1.0, 2.0, 3.0]))) == 56.0
    assert float(total[...]) == 56.0


def test_places_must_be_those_of_the_arguments() -> None:
    a = pyjax.new_ref(jnp.ones(3))
    with pytest.raises(ValueError, match="there is one place for each leaf"):
        pullback().with_refs(a)
    with pytest.raises(ValueError, match="Invalid shape for `addupdate`"):
        pullback().with_refs(pyjax.new_ref(jnp.ones(4)), {"a": a})(1.0)


def test_pullbacks_cross_jit() -> None:
    a, b = pyjax.new_ref(jnp.zeros(3)), pyjax.new_ref(jnp.zeros(3))

    @pyjax.jit
    def back(p, x, y):
        p.with_refs(x, {"a": y})(1.0)

    back(pullback(), a, b)
    back(pullback(), a, b)
    assert a[...].tolist() == [0, 4, 8] and b[...].tolist() == [0, 2, 8]
