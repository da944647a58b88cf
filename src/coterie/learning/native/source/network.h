/* A network: a chain of operations on activations of eight samples at a time.
 *
 * Activations lie as (row, column, channel, lane), the lane being the sample within the group, and
 * have a border of zeros as wide as the padding of the convolution that reads them. Parameters are
 * packed for the kernels: a convolution's as (output, kernel row, kernel column x channel), a
 * linear layer's as (output, input), both with rows padded by zeros to whole vectors.
 */
#ifndef COTERIE_NETWORK_H
#define COTERIE_NETWORK_H

#include "vectors.h"

enum Kind { CONVOLUTION = 1, LINEAR, MAX_POOL, AVERAGE_POOL, RELU, DROPOUT };
enum Loss { CROSS_ENTROPY = 1, SQUARED_ERROR };
enum Optimizer { SGD = 1, ADAM, ADAMW };

/* An operation of a user's network; the same fields in the same order as in library.py. */
typedef struct {
    int32_t kind;
    int32_t outputs;               /* channels of a convolution, width of a linear layer */
    int32_t kernel[2], stride[2], padding[2];
    int32_t relu;                  /* followed by a ReLU */
    int32_t pool;                  /* a convolution followed by 2 x 2 max-pooling: 2; otherwise 1 */
    int32_t count_padding;         /* average pooling divides by the whole window */
    int32_t layer;                 /* counts the operations that have parameters */
    int32_t whole_channels;        /* dropout drops channels of a sample, not single values */
    float rate;                    /* share of values dropped */
    int64_t weight, bias;          /* where they start in the model's vector; bias -1: none */
} Operation;

typedef struct {
    int32_t optimizer;
    int32_t batch_size;
    float learning_rate, momentum, weight_decay, beta1, beta2, epsilon;
} Training;

typedef struct {
    int64_t height, width, channels, pad_height, pad_width;
    float *value, *gradient;       /* (height + 2 pad, width + 2 pad, channels, 8) */
} Tensor;

typedef struct {
    Operation is;
    Tensor in, out;
    int64_t row, padded_row;       /* a kernel row, or a linear layer's inputs; in whole vectors */
    int64_t weights, biases;       /* offsets into the packed vector */
    int64_t num_weights;           /* packed, with padding */
    int32_t *place;                /* where each maximum was; or which values dropout kept */
    /* A convolution's: */
    uint8_t *window, *windows;     /* place of each maximum in its window (position, channel, lane);
                                    * and by sample (lane, position, channel) */
    int32_t *bases;                /* where the input of each position begins */
    float *inputs;                 /* inputs, sample by sample */
    float *dx;                     /* gradient of the inputs of one sample */
    float *kernels;                /* transformed, where winograd.h needs them */
    uint64_t stream;               /* dropout: its own random numbers */
} Step;

typedef struct Network {
    int32_t num_steps, loss, num_outputs;
    int64_t input[3];              /* channels, height, width */
    int64_t num_packed;
    Step *steps;
    float *packed, *gradient, *first_moment, *second_moment;
    /* Scratch for one convolution or linear layer at a time. */
    float *tiles, *products;       /* of four pooling windows; see winograd.h */
    float *samples;                /* inputs of a linear layer, sample by sample */
    float *values, *gradients;     /* of the last of several convolutions, sample by sample */
    float *sample_gradient;        /* of the inputs of the first of them, sample by sample */
    float *live;                   /* gradients of one sample, zero where the ReLU is dead */
    float *list_values;
    int32_t *list_offsets;
    void **blocks;                 /* everything that was allocated */
    int64_t num_blocks, num_reserved;
} Network;

/* One optimiser step's constants. */
typedef struct {
    int32_t optimizer;
    float learning_rate, momentum, epsilon;
    float beta2, rest1, rest2;     /* rest = 1 - beta */
    float decay;                   /* added to the gradient: decay x parameter */
    float shrink;                  /* parameters are multiplied by it first (AdamW) */
    float step_size, correction;   /* Adam's bias corrections */
} Update;

INLINE int64_t padded_width(const Tensor *t) { return t->width + 2 * t->pad_width; }
INLINE int64_t padded_height(const Tensor *t) { return t->height + 2 * t->pad_height; }
INLINE int64_t num_values(const Tensor *t)
{
    return padded_height(t) * padded_width(t) * t->channels;
}
/* Where the values of a position begin, counted in values, not lanes. */
INLINE int64_t place_of(const Tensor *t, int64_t y, int64_t x)
{
    return ((y + t->pad_height) * padded_width(t) + x + t->pad_width) * t->channels;
}

#endif
