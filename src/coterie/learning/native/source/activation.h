/* Operations on each value by itself, and additions. The gradients of most need the inputs. */
#ifndef COTERIE_ACTIVATION_H
#define COTERIE_ACTIVATION_H

#include "network.h"

/* e to the x, to about one unit in the last place; NaN stays NaN. */
INLINE vec exponential(vec x)
{
    const vec high = all(88.3762626647949f), low = all(-87.3365478515625f);
    const vec shift = all(12582912.0f); /* 1.5 x 2^23: adding it rounds to whole numbers */
    vec bounded = choose((ints)(x > high), high, x);
    bounded = choose((ints)(bounded < low), low, bounded);
    const vec power = (bounded * all(1.44269504088896341f) + shift) - shift;
    const vec r = (bounded - power * all(0.693359375f)) - power * all(-2.12194440e-4f);
    vec p = all(1.9875691500e-4f);
    p = p * r + all(1.3981999507e-3f);
    p = p * r + all(8.3334519073e-3f);
    p = p * r + all(4.1665795894e-2f);
    p = p * r + all(1.6666665459e-1f);
    p = p * r + all(5.0000001201e-1f);
    p = p * (r * r) + r + all(1);
    const vec known = choose((ints)(x == x), power, all(0));
    const ints scale = (__builtin_convertvector(known, ints) + 127) << 23;
    return choose((ints)(x == x), p * (vec)scale, x);
}

INLINE vec sigmoid(vec x) { return all(1) / (all(1) + exponential(-x)); }

INLINE vec magnitude(vec x) { return (vec)((ints)x & all_ints(0x7FFFFFFF)); }
INLINE vec with_sign(vec size, vec sign)
{
    return (vec)(((ints)size & all_ints(0x7FFFFFFF)) | ((ints)sign & ~all_ints(0x7FFFFFFF)));
}

INLINE vec hyperbolic_tangent(vec x)
{
    const vec size = magnitude(x), s = x * x;
    /* Near zero the quotient would lose digits. */
    vec p = all(-5.70498872745e-3f);
    p = p * s + all(2.06390887954e-2f);
    p = p * s + all(-5.37397155531e-2f);
    p = p * s + all(1.33314422036e-1f);
    p = p * s + all(-3.33332819422e-1f);
    const vec near = p * s * x + x;
    const vec far = all(1) - all(2) / (exponential(size + size) + all(1));
    return choose((ints)(size < all(0.625f)), near, choose((ints)(x == x), with_sign(far, x), x));
}

/* The error function, to about one unit in the last place (coefficients: N. Juffa). */
INLINE vec error_function(vec x)
{
    const vec size = magnitude(x), s = x * x;
    const vec t = choose((ints)(size > all(4)), all(4), size), tt = t * t;
    vec far = all(-1.72853470e-5f) * t + all(3.83197126e-4f);
    far = far * tt + (all(-3.88396438e-3f) * t + all(2.42546219e-2f));
    far = far * t + all(-1.06777877e-1f);
    far = far * t + all(-6.34846687e-1f);
    far = far * t + all(-1.28717512e-1f);
    far = all(1) - exponential(far * t - t);
    vec near = all(-5.96761703e-4f);
    near = near * s + all(4.99119423e-3f);
    near = near * s + all(-2.67681349e-2f);
    near = near * s + all(1.12819925e-1f);
    near = near * s + all(-3.76125336e-1f);
    near = near * s + all(1.28379166e-1f);
    near = near * x + x;
    return choose((ints)(size > all(0.927734375f)), with_sign(far, x), near);
}

#define ROOT_2_BY_PI 0.79788456080286535588f
#define GELU_CUBIC 0.044715f

INLINE vec activation(const int kind, vec x, vec slope)
{
    switch (kind) {
    case TANH: return hyperbolic_tangent(x);
    case SIGMOID: return sigmoid(x);
    case SILU: return x * sigmoid(x);
    case LEAKY_RELU: return choose((ints)(x > all(0)), x, x * slope);
    case GELU: return all(0.5f) * x * (all(1) + error_function(x * all(0.70710678118654752440f)));
    default: {
        const vec inner = all(ROOT_2_BY_PI) * (x + all(GELU_CUBIC) * x * x * x);
        return all(0.5f) * x * (all(1) + hyperbolic_tangent(inner));
    }
    }
}

/* The derivative at x, where the value is y. */
INLINE vec derivative(const int kind, vec x, vec y, vec slope)
{
    switch (kind) {
    case TANH: return all(1) - y * y;
    case SIGMOID: return y * (all(1) - y);
    case SILU: {
        const vec share = sigmoid(x);
        return share * (all(1) + x * (all(1) - share));
    }
    case LEAKY_RELU: return choose((ints)(x > all(0)), all(1), slope);
    case GELU: {
        const vec below = all(0.5f) * (all(1) + error_function(x * all(0.70710678118654752440f)));
        return below + x * exponential(all(-0.5f) * x * x) * all(0.39894228040143267794f);
    }
    default: {
        const vec inner = all(ROOT_2_BY_PI) * (x + all(GELU_CUBIC) * x * x * x);
        const vec t = hyperbolic_tangent(inner);
        const vec change = all(ROOT_2_BY_PI) * (all(1) + all(3 * GELU_CUBIC) * x * x);
        return all(0.5f) * (all(1) + t) + all(0.5f) * x * (all(1) - t * t) * change;
    }
    }
}

INLINE void activate_rows(const int kind, const int backward, const Step *s)
{
    const int64_t count = s->in.width * s->in.channels * LANES;
    const vec slope = all(s->is.slope);
    for (int64_t y = 0; y < s->in.height; y++) {
        const int64_t from = place_of(&s->in, y, 0) * LANES, to = place_of(&s->out, y, 0) * LANES;
        for (int64_t i = 0; i < count; i += LANES) {
            const vec x = load(s->in.value + from + i);
            if (!backward) {
                store(s->out.value + to + i, activation(kind, x, slope));
                continue;
            }
            const vec change = derivative(kind, x, load(s->out.value + to + i), slope);
            store(s->in.gradient + from + i, load(s->out.gradient + to + i) * change);
        }
    }
}

static void activate(const Step *s, int backward)
{
#define CASE(KIND)                                                          \
    case KIND:                                                              \
        if (backward) activate_rows(KIND, 1, s);                            \
        else activate_rows(KIND, 0, s);                                     \
        break
    switch (s->is.kind) {
        CASE(TANH);
        CASE(SIGMOID);
        CASE(GELU);
        CASE(GELU_TANH);
        CASE(LEAKY_RELU);
        CASE(SILU);
    }
#undef CASE
}

static void add_forward(const Step *s)
{
    const int64_t count = s->in.width * s->in.channels * LANES;
    for (int64_t y = 0; y < s->in.height; y++) {
        const float *one = s->in.value + place_of(&s->in, y, 0) * LANES;
        const float *other = s->other.value + place_of(&s->other, y, 0) * LANES;
        float *out = s->out.value + place_of(&s->out, y, 0) * LANES;
        for (int64_t i = 0; i < count; i += LANES) {
            const vec sum = load(one + i) + load(other + i);
            store(out + i, s->is.relu ? larger(all(0), sum) : sum);
        }
    }
}

/* Add the gradient of a step's output, zero where its ReLU is dead, to that of one of its inputs. */
INLINE void pass_gradient(const Step *s, const Tensor *to, int adds)
{
    const int64_t count = s->out.width * s->out.channels * LANES;
    for (int64_t y = 0; y < s->out.height; y++) {
        const int64_t from = place_of(&s->out, y, 0) * LANES;
        float *sum = to->gradient + place_of(to, y, 0) * LANES;
        for (int64_t i = 0; i < count; i += LANES) {
            vec g = load(s->out.gradient + from + i);
            if (s->is.relu)
                g = choose((ints)(load(s->out.value + from + i) <= all(0)), all(0), g);
            if (adds) g += load(sum + i);
            store(sum + i, g);
        }
    }
}

/* Set the gradient of a step's output to zero where its ReLU is dead. Not value > 0: the gradient
 * of a NaN is kept, so that divergence is seen. */
static void mask_gradient(const Step *s)
{
    const int64_t count = s->out.width * s->out.channels * LANES;
    for (int64_t y = 0; y < s->out.height; y++) {
        const int64_t at = place_of(&s->out, y, 0) * LANES;
        for (int64_t i = at; i < at + count; i += LANES) {
            const ints dead = (ints)(load(s->out.value + i) <= all(0));
            store(s->out.gradient + i, choose(dead, all(0), load(s->out.gradient + i)));
        }
    }
}

/* Add the gradient in `spare` to that of a tensor of the same shape. */
static void add_spare(const float *spare, const Tensor *to)
{
    const int64_t count = to->width * to->channels * LANES;
    for (int64_t y = 0; y < to->height; y++) {
        const int64_t at = place_of(to, y, 0) * LANES;
        for (int64_t i = at; i < at + count; i += LANES)
            store(to->gradient + i, load(to->gradient + i) + load(spare + i));
    }
}

#endif
