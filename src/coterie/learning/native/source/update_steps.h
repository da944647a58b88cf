/* The optimisers' steps, for vectors of either width; see use_narrow.h. */

/* One vector of parameters; `use` is constant. */
HERE_INLINE void NAME_OF(update_vector)(const int use, const Update *u, float *parameter,
                                        float *first, float *second, VECTOR g)
{
    VECTOR p = READ(parameter);
    if (use != PLAIN_ADAM) {
        if (u->decay != 0) g += ALL(u->decay) * p;
        if (u->optimizer == SGD) {
            if (u->momentum != 0) {
                g += READ(first) * ALL(u->momentum);
                WRITE(first, g);
            }
            WRITE(parameter, p - ALL(u->learning_rate) * g);
            return;
        }
        if (use == SHRINKING) p *= ALL(u->shrink);
    }
    VECTOR m = READ(first), v = READ(second);
    m += ALL(u->rest1) * (g - m);
    v = v * ALL(u->beta2) + ALL(u->rest2) * g * g;
    WRITE(first, m);
    WRITE(second, v);
    const VECTOR root = ROOT(v) * ALL(u->correction) + ALL(u->epsilon);
    WRITE(parameter, p - ALL(u->step_size) * m / root);
}

HERE_INLINE void NAME_OF(update_each)(const int use, Network *n, const Update *u,
                                      int64_t start, int64_t stop)
{
    int64_t i = start;
    for (; i + NUM_LANES <= stop; i += NUM_LANES)
        NAME_OF(update_vector)(use, u, n->packed + i, n->first_moment + i,
                               n->second_moment + i, READ(n->gradient + i));
    if (i < stop) /* ranges are whole vectors of eight */
        update_vector_narrow(use, u, n->packed + i, n->first_moment + i,
                             n->second_moment + i, load(n->gradient + i));
}

HERE_INLINE void NAME_OF(update_rows)(const int use, Network *n, const Update *u,
                                      int64_t start, const int32_t *rows, int64_t count,
                                      int64_t length)
{
    for (int64_t r = 0; r < count; r++) {
        const int64_t at = start + (rows ? rows[r] : r) * length;
        NAME_OF(update_each)(use, n, u, at, at + length);
    }
}

/* Update `count` of the rows of `length` values that begin at `start`; NULL: the first ones. */
HERE void NAME_OF(update)(Network *n, const Update *update, int64_t start, const int32_t *rows,
                          int64_t count, int64_t length)
{
    const Update u = *update; /* a copy, so that stores cannot change it and it stays in registers */
#define UPDATE_ROWS(USE) NAME_OF(update_rows)(USE, n, &u, start, rows, count, length)
    FOR_USE(&u, UPDATE_ROWS)
#undef UPDATE_ROWS
}
