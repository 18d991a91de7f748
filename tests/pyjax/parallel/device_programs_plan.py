"""Plans of programs that this machine's devices run: what was planned is what is compiled."""

PROGRAMS = {
    "plan": """
        def loss(w, x):
            return jnp.sum((jnp.maximum(x @ w[0], 0) @ w[1]) ** 2)
        def train(w, x):
            return pyjax.tree.map(lambda w, g: w - 0.1 * g, w, pyjax.grad(loss)(w, x))
        describe = lambda shape, *axes: pyjax.ShapeDtypeStruct(shape, "f4", sharding=over(P(*axes)))
        w = (describe((256, 512), None, "b"), describe((512, 256), "b"))
        step = pyjax.jit(train, donate_argnums=0)
        plan = pyjax.plan(step, mesh, w, describe((64, 256), "a"))
        compiled = step.lower(w, describe((64, 256), "a")).compile()
        made = re.findall(r" (all-\\w+|reduce-scatter)[(]", compiled.as_text())
        assert made and made == [c.kind for c in plan.collectives], (made, str(plan))
        memory = compiled.memory_analysis()
        assert plan.memory.arguments == memory.argument_size_in_bytes
        assert plan.memory.results == memory.output_size_in_bytes
        assert plan.memory.aliased == memory.alias_size_in_bytes > 0
        assert plan.memory.temporaries == memory.temp_size_in_bytes
    """,
    "plan of arrays": """
        x = put(DATA, P("a"))
        (found,) = pyjax.plan(lambda x: x.sum(0), mesh, x).collectives
        assert (found.kind, found.axes, found.sent) == ("all-reduce", ("a",), 32.0)
        # One that lies elsewhere stands for its type.
        assert not pyjax.plan(lambda x: x * 2, mesh, jnp.ones(8)).collectives
    """,
}
