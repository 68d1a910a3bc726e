// The loops of draw_kernels.h in GCC's vector extensions, as wide as the registers of the instruction set.
// See kernels-inl.h for what may be called here.
#pragma once

#include <cstdint>

#include "cpu-runner/kernels/draw_kernels.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define RUNNEL_DRAW_BYTES 64
#elif defined(__AVX2__)
#define RUNNEL_DRAW_BYTES 32
#else
#define RUNNEL_DRAW_BYTES 16
#endif

#pragma GCC diagnostic ignored "-Wpsabi"

#define RUNNEL_DRAW_INLINE static inline __attribute__((always_inline))

namespace runnel::RUNNEL_KERNELS::draws {

typedef float Floats __attribute__((vector_size(RUNNEL_DRAW_BYTES)));
typedef float HalfFloats __attribute__((vector_size(RUNNEL_DRAW_BYTES / 2)));
typedef int32_t Ints __attribute__((vector_size(RUNNEL_DRAW_BYTES)));
typedef uint32_t Words __attribute__((vector_size(RUNNEL_DRAW_BYTES)));
typedef double Doubles __attribute__((vector_size(RUNNEL_DRAW_BYTES)));
typedef int64_t Longs __attribute__((vector_size(RUNNEL_DRAW_BYTES)));
typedef uint64_t LongWords __attribute__((vector_size(RUNNEL_DRAW_BYTES)));

static constexpr uint32_t kFloats = RUNNEL_DRAW_BYTES / 4;
static constexpr uint32_t kDoubles = RUNNEL_DRAW_BYTES / 8;
// The generator is called once for each 64 bits of a register, and gives the words of four ids.
static constexpr uint32_t kNoiseIds = kDoubles * 4;
static_assert(kSpanIds % kNoiseIds == 0 && kNoiseIds == 2 * kFloats);

static constexpr float kNoCandidate = -__builtin_inff();

template <typename Vector, typename Value>
RUNNEL_DRAW_INLINE Vector load(const Value* from) {
  Vector value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}
template <typename Vector, typename Value>
RUNNEL_DRAW_INLINE void store(Value* to, Vector value) {
  __builtin_memcpy(to, &value, sizeof(value));
}

// The lanes of the mask of a comparison, as bits.
RUNNEL_DRAW_INLINE uint32_t mask_bits(Ints mask) {
#if RUNNEL_DRAW_BYTES == 64
  return _mm512_movepi32_mask((__m512i)mask);
#elif defined(__AVX2__)
  return static_cast<uint32_t>(_mm256_movemask_ps((__m256)mask));
#elif defined(__ARM_NEON)
  return vaddvq_u32((uint32x4_t)(mask & Ints{1, 2, 4, 8}));
#else
  uint32_t bits = 0;
  for (uint32_t lane = 0; lane < kFloats; ++lane) bits |= static_cast<uint32_t>(mask[lane] & 1) << lane;
  return bits;
#endif
}

RUNNEL_DRAW_INLINE Doubles fma(Doubles a, Doubles b, Doubles c) {
#if RUNNEL_DRAW_BYTES == 64
  return (Doubles)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
  return (Doubles)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif defined(__ARM_NEON)
  return vfmaq_f64(c, a, b);
#else
  Doubles sum;
  for (uint32_t lane = 0; lane < kDoubles; ++lane) sum[lane] = __builtin_fma(a[lane], b[lane], c[lane]);
  return sum;
#endif
}

// The products of the low halves of the lanes.
RUNNEL_DRAW_INLINE LongWords multiply_low(LongWords a, uint32_t b) {
#if RUNNEL_DRAW_BYTES == 64
  return (LongWords)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(b));
#elif defined(__AVX2__)
  return (LongWords)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
#elif defined(__ARM_NEON)
  return vmull_u32(vmovn_u64(a), vdup_n_u32(b));
#else
  return (a & 0xffffffff) * static_cast<uint64_t>(b);
#endif
}

// Calls fn(place, lanes) for each register of n logits. The last register is filled up with kNoCandidate.
template <typename Fn>
RUNNEL_DRAW_INLINE void for_each_register(const float* logits, uint32_t n, const Fn& fn) {
  uint32_t i = 0;
  for (; i + kFloats <= n; i += kFloats) fn(i, load<Floats>(logits + i));
  if (i == n) return;
  float rest[kFloats];
  for (uint32_t lane = 0; lane < kFloats; ++lane) rest[lane] = i + lane < n ? logits[i + lane] : kNoCandidate;
  fn(i, load<Floats>(rest));
}

static DrawKernels::Scan scan(const float* logits, uint32_t n) {
  Floats max = Floats{} + kNoCandidate;
  Floats zeros = {};  // not a number in a lane that met a logit which is not finite
  uint32_t i = 0;
  for (; i + kFloats <= n; i += kFloats) {
    const Floats x = load<Floats>(logits + i);
    max = x > max ? x : max;
    zeros += x - x;
  }
  float all_max = kNoCandidate;
  float all_zeros = 0.0f;
  for (uint32_t lane = 0; lane < kFloats; ++lane) {
    all_max = max[lane] > all_max ? max[lane] : all_max;
    all_zeros += zeros[lane];
  }
  for (; i < n; ++i) {
    all_max = logits[i] > all_max ? logits[i] : all_max;
    all_zeros += logits[i] - logits[i];
  }
  return {all_max, all_zeros == 0.0f};
}

static uint32_t at_least(const float* logits, uint32_t n, float least, uint32_t* places) {
  uint32_t count = 0;
  for_each_register(
      logits, n, [&](uint32_t place, Floats x) __attribute__((always_inline)) {
        for (uint32_t bits = mask_bits(x >= least); bits != 0; bits &= bits - 1)
          places[count++] = place + static_cast<uint32_t>(__builtin_ctz(bits));
      });
  return count;
}

static uint32_t count_at_least(const float* logits, uint32_t n, float least) {
  uint32_t count = 0;
  for_each_register(
      logits, n, [&](uint32_t, Floats x) __attribute__((always_inline)) {
        count += static_cast<uint32_t>(__builtin_popcount(mask_bits(x >= least)));
      });
  return count;
}

// exp_weight of runner/sampling/exp_sum.h in each lane.
RUNNEL_DRAW_INLINE LongWords exp_weight(Doubles x) {
  // Adding 1.5 * 2^52 rounds to the nearest integer, like nearbyint, and leaves that integer in the low bits.
  const Doubles shift = Doubles{} + 0x1.8p52;
  const Doubles shifted = x * 0x1.71547652b82fep+0 + shift;
  const Doubles n = shifted - shift;
  const Doubles r = fma(-n, Doubles{} + 0x1.abc9e3b39803fp-56, fma(-n, Doubles{} + 0x1.62e42fefa39efp-1, x));
  constexpr double kInverseFactorials[] = {1.0,
                                           1.0,
                                           1.0 / 2.0,
                                           1.0 / 6.0,
                                           1.0 / 24.0,
                                           1.0 / 120.0,
                                           1.0 / 720.0,
                                           1.0 / 5040.0,
                                           1.0 / 40320.0,
                                           1.0 / 362880.0,
                                           1.0 / 3628800.0,
                                           1.0 / 39916800.0,
                                           1.0 / 479001600.0,
                                           1.0 / 6227020800.0};
  Doubles p = Doubles{} + kInverseFactorials[13];
#pragma GCC unroll 13
  for (int k = 12; k >= 0; --k) p = fma(p, r, Doubles{} + kInverseFactorials[k]);
  const Doubles exp = p * (Doubles)(((Longs)shifted - (Longs)shift + 1023) << 52);
  // Cuts off the fraction: rounds to the nearest integer, and subtracts 1 where that rounded up.
  const Doubles scaled = exp * 0x1p39;
  const Doubles place = Doubles{} + 0x1p52;
  Doubles whole = (scaled + place) - place;
  whole = whole > scaled ? whole - 1.0 : whole;
  const LongWords weight = (LongWords)(whole + place) - (LongWords)place;
  return x >= -28.0 ? weight : LongWords{};
}

// Calls fn with the logits of each register as doubles, half a register at a time, if one of them is at least
// `least`.
template <typename Fn>
RUNNEL_INLINE void for_each_half(const float* logits, uint32_t n, float least, const Fn& fn) {
  for_each_register(
      logits, n, [&](uint32_t, Floats x) __attribute__((always_inline)) {
        if (mask_bits(x >= least) == 0) return;
        HalfFloats halves[2];
        __builtin_memcpy(halves, &x, sizeof(x));
#pragma GCC unroll 2
        for (const HalfFloats half : halves) fn(__builtin_convertvector(half, Doubles));
      });
}

static uint64_t weigh(const float* logits, uint32_t n, float least, double temperature, double max) {
  LongWords sums = {};
  for_each_half(
      logits, n,
      least, [&](Doubles x) __attribute__((always_inline)) { sums += exp_weight(x / temperature - max); });
  uint64_t sum = 0;
  for (uint32_t lane = 0; lane < kDoubles; ++lane) sum += sums[lane];
  return sum;
}

static double weigh_roughly(const float* logits, uint32_t n, float least, double scale, double offset) {
  Doubles sums = {};
  for_each_half(
      logits, n, least, [&](Doubles x) __attribute__((always_inline)) {
        Doubles exponent = x * scale + offset;
        // A logit that is this far below, or no candidate, adds nothing; 2^exponent must stay a number.
        exponent = exponent > -1000.0 ? exponent : Doubles{} - 1000.0;
        // As in exp_weight.
        const Doubles shift = Doubles{} + 0x1.8p52;
        const Doubles shifted = exponent + shift;
        const Doubles r = (exponent - (shifted - shift)) * 0x1.62e42fefa39efp-1;
        Doubles p = fma(r, Doubles{} + 1.0 / 5040.0, Doubles{} + 1.0 / 720.0);
        p = fma(p, r, Doubles{} + 1.0 / 120.0);
        p = fma(p, r, Doubles{} + 1.0 / 24.0);
        p = fma(p, r, Doubles{} + 1.0 / 6.0);
        p = fma(p, r, Doubles{} + 0.5);
        p = fma(p, r, Doubles{} + 1.0);
        p = fma(p, r, Doubles{} + 1.0);
        sums += p * (Doubles)(((Longs)shifted - (Longs)shift + 1023) << 52);
      });
  double sum = 0.0;
  for (uint32_t lane = 0; lane < kDoubles; ++lane) sum += sums[lane];
  return sum;
}

// out[i] = fn(in[i]), where fn takes and gives registers.
template <typename Registers, typename In, typename Out, typename Fn>
RUNNEL_DRAW_INLINE void transform(const In* in, uint32_t n, Out* out, const Fn& fn) {
  uint32_t i = 0;
  for (; i + kDoubles <= n; i += kDoubles) store(out + i, fn(load<Registers>(in + i)));
  if (i == n) return;
  In rest_in[kDoubles] = {};
  Out rest_out[kDoubles];
  for (uint32_t lane = 0; i + lane < n; ++lane) rest_in[lane] = in[i + lane];
  store(rest_out, fn(load<Registers>(rest_in)));
  for (uint32_t lane = 0; i + lane < n; ++lane) out[i + lane] = rest_out[lane];
}

static void weights(const double* logits, uint32_t n, double max, uint64_t* to) {
  transform<Doubles>(
      logits, n, to, [&](Doubles x) __attribute__((always_inline)) { return exp_weight(x - max); });
}

// The keys of the rounds of Philox.
struct RoundKeys {
  LongWords position;
  LongWords first[10];
  LongWords second[10];
};

RUNNEL_DRAW_INLINE void make_round_keys(const NoiseKey& key, RoundKeys& keys) {
  keys.position = LongWords{} + key.position;
  uint32_t first = static_cast<uint32_t>(key.seed);
  uint32_t second = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    keys.first[round] = LongWords{} + first;
    keys.second[round] = LongWords{} + second;
    first += 0x9E3779B9;
    second += 0xBB67AE85;
  }
}

// philox4x32 of runner/sampling/philox.h for the counters of kNoiseIds ids from first_id on, each in a lane.
// words are in the order of ids. The upper halves of the lanes do not matter until the end.
RUNNEL_DRAW_INLINE void philox(const RoundKeys& keys, uint32_t first_id, uint32_t* words) {
  // Merging at the end puts even lanes before odd ones.
#if RUNNEL_DRAW_BYTES == 64
  const LongWords groups = {0, 4, 1, 5, 2, 6, 3, 7};
#elif RUNNEL_DRAW_BYTES == 32
  const LongWords groups = {0, 2, 1, 3};
#else
  const LongWords groups = {0, 1};
#endif
  // The state after the first round, in which half of the input is zero and half is equal for all ids.
  const LongWords product = multiply_low(groups + first_id / 4, 0xD2511F53);
  LongWords c0 = keys.position ^ keys.first[0];
  LongWords c1 = {};
  LongWords c2 = (product >> 32) ^ keys.second[0];
  LongWords c3 = product;
#pragma GCC unroll 9
  for (int round = 1; round < 10; ++round) {
    const LongWords product0 = multiply_low(c0, 0xD2511F53);
    const LongWords product1 = multiply_low(c2, 0xCD9E8D57);
    c0 = (product1 >> 32) ^ c1 ^ keys.first[round];
    c1 = product1;
    c2 = (product0 >> 32) ^ c3 ^ keys.second[round];
    c3 = product0;
  }
  const LongWords low = (c0 & 0xffffffff) | (c1 << 32);
  const LongWords high = (c2 & 0xffffffff) | (c3 << 32);
#if RUNNEL_DRAW_BYTES == 64
  store(words, __builtin_shufflevector(low, high, 0, 8, 2, 10, 4, 12, 6, 14));
  store(words + kFloats, __builtin_shufflevector(low, high, 1, 9, 3, 11, 5, 13, 7, 15));
#elif RUNNEL_DRAW_BYTES == 32
  store(words, __builtin_shufflevector(low, high, 0, 4, 2, 6));
  store(words + kFloats, __builtin_shufflevector(low, high, 1, 5, 3, 7));
#else
  store(words, __builtin_shufflevector(low, high, 0, 2));
  store(words + kFloats, __builtin_shufflevector(low, high, 1, 3));
#endif
}

static void noise(const float* logits, uint32_t n, float least, const NoiseKey& key, uint32_t first_id,
                  uint32_t* words) {
  RoundKeys keys;
  make_round_keys(key, keys);
  uint32_t i = 0;
  for (; i + kNoiseIds <= n; i += kNoiseIds) {
    const Ints likely = (load<Floats>(logits + i) >= least) | (load<Floats>(logits + i + kFloats) >= least);
    if (mask_bits(likely) != 0) philox(keys, first_id + i, words + i);
  }
  if (i < n) philox(keys, first_id + i, words + i);
}

static uint32_t contenders(const float* logits, const uint32_t* words, uint32_t n, const Contest& contest,
                           uint32_t* places) {
  uint32_t count = 0;
  for_each_register(
      logits, n, [&](uint32_t place, Floats x) __attribute__((always_inline)) {
        // The bits of a float, as an integer, are its logarithm, with the fraction in place of the logarithm
        // of 1 + the fraction.
        const Ints top = (Ints)(~load<Words>(words + place) >> 8);
        const Ints log = (Ints) __builtin_convertvector(top, Floats);
        const Ints can_win = (x >= contest.least) &
                             (__builtin_convertvector(log, Floats) <= x * contest.scale + contest.offset);
        for (uint32_t bits = mask_bits(can_win); bits != 0; bits &= bits - 1)
          places[count++] = place + static_cast<uint32_t>(__builtin_ctz(bits));
      });
  return count;
}

// log_f64 of runner/backend/numerics.h in each lane.
RUNNEL_DRAW_INLINE Doubles log(Doubles x) {
  const Longs bits = (Longs)x;
  // 2^52 holds a small integer in its low bits; x is positive.
  Doubles exponent = (Doubles)((bits >> 52) + (Longs)(Doubles{} + 0x1p52)) - (0x1p52 + 1023.0);
  Doubles m = (Doubles)((bits & 0x000fffffffffffff) | 0x3ff0000000000000);
  const Longs is_large = m > 0x1.6a09e667f3bcdp+0;
  m = is_large ? m * 0.5 : m;
  exponent = is_large ? exponent + 1.0 : exponent;
  const Doubles s = (m - 1.0) / (m + 1.0);
  const Doubles s2 = s * s;
  constexpr double kInverses[] = {1.0 / 3.0,  1.0 / 5.0,  1.0 / 7.0,  1.0 / 9.0,  1.0 / 11.0, 1.0 / 13.0,
                                  1.0 / 15.0, 1.0 / 17.0, 1.0 / 19.0, 1.0 / 21.0, 1.0 / 23.0};
  Doubles p = Doubles{} + kInverses[10];
#pragma GCC unroll 10
  for (int i = 9; i >= 0; --i) p = fma(p, s2, Doubles{} + kInverses[i]);
  const Doubles log_m = 2.0 * fma(s * s2, p, s);
  return fma(exponent, Doubles{} + 0x1.62e42fefa39efp-1,
             fma(exponent, Doubles{} + 0x1.abc9e3b39803fp-56, log_m));
}

static void gumbels(const uint32_t* words, uint32_t n, double* to) {
  typedef uint32_t HalfWords __attribute__((vector_size(RUNNEL_DRAW_BYTES / 2)));
  transform<HalfWords>(
      words, n, to, [](HalfWords half) __attribute__((always_inline)) {
        const LongWords word = __builtin_convertvector(half, LongWords);
        const Doubles value = (Doubles)(word + (LongWords)(Doubles{} + 0x1p52)) - 0x1p52;
        return -log(-log((value + 0.5) * 0x1p-32));
      });
}

static constexpr DrawKernels kDrawKernels = {
    .scan = scan,
    .at_least = at_least,
    .count_at_least = count_at_least,
    .weigh = weigh,
    .weigh_roughly = weigh_roughly,
    .weights = weights,
    .noise = noise,
    .contenders = contenders,
    .gumbels = gumbels,
};

}  // namespace runnel::RUNNEL_KERNELS::draws

#undef RUNNEL_DRAW_BYTES
#undef RUNNEL_DRAW_INLINE
