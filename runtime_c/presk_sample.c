/* presk_sample.c: the operations of docs/generation.md, in its order; every sum is in f64, one term after the other. */

#include "presk_sample.h"
#include "presk_math.h"

bool presk_sampling_check(const presk_sampling *s, presk_error *e)
{
    if (!(s->temperature >= 0.0 && s->temperature <= DBL_MAX)) {
        return presk_fail(e, PRESK_E_INPUT, NULL, "the temperature must be a number from 0 on");
    }
    if (!(s->top_p >= 0.0 && s->top_p <= 1.0)) {
        return presk_fail(e, PRESK_E_INPUT, NULL, "top-p must lie in [0, 1]");
    }
    if (!(s->min_p >= 0.0 && s->min_p <= 1.0)) {
        return presk_fail(e, PRESK_E_INPUT, NULL, "min-p must lie in [0, 1]");
    }
    if (!(s->penalty > 0.0 && s->penalty <= DBL_MAX)) {
        return presk_fail(e, PRESK_E_INPUT, NULL, "the repetition penalty must be a number above 0");
    }
    return s->top_k >= 0 || presk_fail(e, PRESK_E_INPUT, NULL, "top-k must be 0 or more");
}

void presk_penalize(double *x, int64_t n, const int64_t *seen, int64_t count, double penalty, int64_t *work)
{
    memset(work, 0, (size_t)n * sizeof *work);
    for (int64_t i = 0; i < count; i++) {
        int64_t token = seen[i];
        if (token >= 0 && token < n && work[token] == 0) {
            work[token] = 1;
            x[token] = x[token] > 0.0 ? x[token] / penalty : x[token] * penalty;
        }
    }
}

/* The order of candidates: the larger number first (-0 < +0), the lower token among equals. No number is NaN. */
static bool goes_first(const double *x, int64_t a, int64_t b)
{
    int64_t p = presk_key_f64(x[a]), q = presk_key_f64(x[b]);
    return p > q || (p == q && a < b);
}

/* heap[at] moves down to where both tokens below go after it. */
static void sink(const double *x, int64_t *heap, int64_t n, int64_t at)
{
    int64_t token = heap[at];
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && goes_first(x, heap[child + 1], heap[child])) {
            child++;
        }
        if (!goes_first(x, heap[child], token)) {
            break;
        }
        heap[at] = heap[child];
    }
    heap[at] = token;
}

static void heapify(const double *x, int64_t *heap, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        heap[i] = i;
    }
    for (int64_t i = n / 2; i > 0; i--) {
        sink(x, heap, n, i - 1);
    }
}

/* The first token of the order goes to the freed place behind the other n - 1, and is returned. */
static int64_t taken(const double *x, int64_t *heap, int64_t n)
{
    int64_t first = heap[0];
    heap[0] = heap[n - 1];
    sink(x, heap, n - 1, 0);
    heap[n - 1] = first;
    return first;
}

/* The tokens behind the first k of the order become -infinity. */
static void keep_top_k(double *x, int64_t n, int64_t k, int64_t *heap)
{
    heapify(x, heap, n);
    for (int64_t i = 0; i < k; i++) {
        (void)taken(x, heap, n - i);
    }
    for (int64_t i = 0; i < n - k; i++) {
        x[heap[i]] = -presk_f64_from_bits(UINT64_C(0x7ff0000000000000));
    }
}

static double sum(const double *w, int64_t n)
{
    double z = 0.0;
    for (int64_t i = 0; i < n; i++) {
        z = z + w[i];
    }
    return z;
}

/* The weights behind the shortest beginning of the order whose sum reaches top_p of all become 0. */
static void keep_top_p(double *w, int64_t n, double top_p, int64_t *heap)
{
    const double enough = top_p * sum(w, n);
    heapify(w, heap, n);
    double c = 0.0;
    for (int64_t left = n; left > 0; left--) {
        c = c + w[taken(w, heap, left)];
        if (c >= enough) {
            for (int64_t i = 0; i < left - 1; i++) {
                w[heap[i]] = 0.0;
            }
            return;
        }
    }
}

/* The first token of the order, or -1 where there is none or a number is NaN. */
static int64_t first_of_order(const double *x, int64_t n)
{
    int64_t most = INT64_MIN, bad = 0;
    for (int64_t i = 0; i < n; i++) { /* without a branch, so that it is vector code */
        const int64_t key = presk_key_f64(x[i]);
        most = key > most ? key : most;
        bad |= x[i] != x[i];
    }
    for (int64_t i = 0; bad == 0 && i < n; i++) {
        if (presk_key_f64(x[i]) == most) {
            return i;
        }
    }
    return -1;
}

int64_t presk_sample(const presk_sampling *s, double u, double *x, int64_t n, int64_t *work)
{
    const double infinity = presk_f64_from_bits(UINT64_C(0x7ff0000000000000));
    const int64_t best = first_of_order(x, n);
    if (best < 0 || x[best] == -infinity) {
        return -1;
    }
    if (s->temperature == 0.0) {
        return best;
    }
    for (int64_t i = 0; i < n; i++) {
        x[i] = x[i] / s->temperature;
    }
    const double m = x[best];
    if (m == infinity || m == -infinity) {
        return best;
    }
    if (s->top_k > 0 && s->top_k < n) {
        keep_top_k(x, n, s->top_k, work);
    }
    for (int64_t i = 0; i < n; i++) {
        x[i] = presk_exp_f64(x[i] - m);
    }
    if (s->top_p < 1.0) {
        keep_top_p(x, n, s->top_p, work);
    }
    for (int64_t i = 0; i < n; i++) {
        x[i] = x[i] >= s->min_p ? x[i] : 0.0;
    }
    const double goal = u * sum(x, n);
    double c = 0.0;
    for (int64_t i = 0; i < n; i++) {
        c = c + x[i];
        if (c > goal) {
            return i;
        }
    }
    return -1; /* not reached: the sum is 1 at least, and u < 1 */
}
