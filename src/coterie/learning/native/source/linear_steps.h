/* The gradients of a linear layer's weights, for vectors of either width; see use_narrow.h. */

/* dW = dy xᵀ for row `o` from `start` on; `use` is constant. Return where the last whole
 * vector ends. */
HERE_INLINE int64_t NAME_OF(weight_row)(const int use, Network *n, const Step *s,
                                        const Update *u, int64_t o, int64_t start)
{
    const int64_t padded = s->padded_row, at = s->weights + o * padded;
    const float *x = n->samples, *dy = s->out.gradient + o * LANES;
    float *gradient = n->gradient + at, *packed = n->packed + at;
    float *first = n->first_moment + at, *second = n->second_moment + at;
    VECTOR d[LANES];
    for (int b = 0; b < LANES; b++) d[b] = ALL(dy[b]);
    int64_t i = start;
    for (; i + NUM_LANES <= padded; i += NUM_LANES) {
        VECTOR even = d[0] * READ(x + i), odd = d[1] * READ(x + padded + i);
#pragma GCC unroll 4
        for (int b = 2; b < LANES; b += 2) {
            even += d[b] * READ(x + b * padded + i);
            odd += d[b + 1] * READ(x + (b + 1) * padded + i);
        }
        const VECTOR g = even + odd;
        if (use == SHRINKING) {
            /* Rounded before the step: the compiler must not join both in one operation. */
            WRITE(packed + i, READ(packed + i) * ALL(u->shrink));
            __asm__("" ::: "memory");
        }
        if (use == ADD_GRADIENT) WRITE(gradient + i, READ(gradient + i) + g);
        else
            NAME_OF(update_vector)(use == SHRINKING ? GENERAL : use, u, packed + i, first + i,
                                   second + i, g);
    }
    return i;
}
