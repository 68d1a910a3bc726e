#include "cuda-runner/kernels/product.h"

#include "cuda-runner/kernels/product_variants.h"
#include "runner/formats/weight_type.h"

namespace runnel {
namespace {

template <typename In>
cudaError_t multiply(const DeviceMatrix& matrix, const In& in, uint32_t num_rows, const ProductOutput& to,
                     cudaStream_t stream, ProductForm form = ProductForm::kBest) {
  return with_weight_type(
      matrix.type, [&](auto type) { return multiply_of<type>(matrix, in, num_rows, to, stream, form); });
}

ProductOutput to_floats(ProductOutput::Kind kind, const DeviceMatrix& matrix, Global<const float> bias,
                        bool has_bias, const FloatRows& out, uint32_t first_output) {
  return {.kind = kind,
          .bias = bias,
          .has_bias = has_bias,
          .num_outputs = matrix.rows,
          .floats = out,
          .first_output = first_output,
          .ready = {},
          .nonlinearity = {},
          .has_gates = false};
}

}  // namespace

cudaError_t multiply(const DeviceMatrix& matrix, const ReadyRows& in, uint32_t num_rows,
                     Global<const float> bias, bool has_bias, Epilogue epilogue, const FloatRows& out,
                     uint32_t first_output, cudaStream_t stream, ProductForm form) {
  using Kind = ProductOutput::Kind;
  const Kind kind = epilogue == Epilogue::kAdd ? Kind::kAdd : Kind::kReplace;
  return multiply(matrix, in, num_rows, to_floats(kind, matrix, bias, has_bias, out, first_output), stream,
                  form);
}

cudaError_t multiply(const DeviceMatrix& matrix, const NormedRows& in, uint32_t num_rows,
                     Global<const float> bias, bool has_bias, const FloatRows& out, cudaStream_t stream) {
  return multiply(matrix, in, num_rows,
                  to_floats(ProductOutput::Kind::kReplace, matrix, bias, has_bias, out, 0), stream);
}

cudaError_t gated_multiply(const DeviceMatrix& gate, const DeviceMatrix& up, Nonlinearity nonlinearity,
                           const ReadyRows& in, uint32_t num_rows, const ReadyRows& out, cudaStream_t stream,
                           ProductForm form) {
  if (gate.type == up.type) {
    return with_weight_type(gate.type, [&](auto type) {
      return gated_multiply_of<type>(gate, up, nonlinearity, in, num_rows, out, stream, form);
    });
  }
  // Kernels for all pairs of types would be many, so the gates wait in memory for what they are multiplied
  // by.
  const cudaError_t status =
      multiply(gate, in, num_rows, {}, false, Epilogue::kReplace, {out.values, out.stride}, 0, stream, form);
  if (status != cudaSuccess) return status;
  const ProductOutput to{.kind = ProductOutput::Kind::kReady,
                         .bias = {},
                         .has_bias = false,
                         .num_outputs = up.rows,
                         .floats = {},
                         .first_output = 0,
                         .ready = out,
                         .nonlinearity = nonlinearity,
                         .has_gates = true};
  return multiply(up, in, num_rows, to, stream);
}

cudaError_t gated_multiply(const DeviceMatrix& gate, const DeviceMatrix& up, Nonlinearity nonlinearity,
                           const NormedRows& in, uint32_t num_rows, const ReadyRows& out,
                           cudaStream_t stream) {
  if (gate.type != up.type) return cudaErrorInvalidValue;
  return with_weight_type(gate.type, [&](auto type) {
    return gated_multiply_of<type>(gate, up, nonlinearity, in, num_rows, out, stream, ProductForm::kBest);
  });
}

cudaError_t activated_multiply(const DeviceMatrix& matrix, Global<const float> bias, bool has_bias,
                               Nonlinearity nonlinearity, const ReadyRows& in, uint32_t num_rows,
                               const ReadyRows& out, cudaStream_t stream) {
  const ProductOutput to{.kind = ProductOutput::Kind::kReady,
                         .bias = bias,
                         .has_bias = has_bias,
                         .num_outputs = matrix.rows,
                         .floats = {},
                         .first_output = 0,
                         .ready = out,
                         .nonlinearity = nonlinearity,
                         .has_gates = false};
  return multiply(matrix, in, num_rows, to, stream);
}

bool computes_norms(TensorType type, uint32_t columns, uint32_t num_rows) {
  return is_quantised(type) && columns <= kMostNormedColumns && num_rows <= kMostNormedRows;
}

cudaError_t load_multiply(TensorType type) {
  return with_weight_type(type, [](auto constant) { return load_multiply_of<constant>(); });
}

cudaError_t load_gated_multiply(TensorType type) {
  return with_weight_type(type, [](auto constant) { return load_gated_multiply_of<constant>(); });
}

}  // namespace runnel
