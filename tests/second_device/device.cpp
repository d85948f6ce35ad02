// A torch device for machines without an accelerator. Its memory is the processor's, and so are its kernels, but it
// refuses what an accelerator refuses (operands on two devices, a processor's generator and, where asked, float64) and
// counts what an accelerator waits for.
//
// Every operation without a kernel of its own comes to `on_the_processor`: operands are seen as processor tensors over
// the same memory, the processor's kernel runs, and results are handed back as tensors of this device.

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/library.h>

#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>

#include <atomic>
#include <set>
#include <string>
#include <vector>

namespace {

const at::Device HERE(at::DeviceType::PrivateUse1, 0);
constexpr c10::DispatchKeySet KEYS(c10::DispatchKey::PrivateUse1);

// ---- what is counted and what may be refused

std::atomic<long> reads_back{0};  // the processor needed a value, a shape or a tensor of the device
std::atomic<long> uploads{0};     // a tensor went to the device
std::atomic<bool> without_doubles{false};

void check_type(at::ScalarType type) {
  bool wide = type == at::kDouble || type == at::kComplexDouble;
  TORCH_CHECK_TYPE(!(wide && without_doubles), "second device: it has no float64; use float32, or stay on the processor");
}

// Their answer, or the shape of it, depends on values: the processor has to wait for them.
const std::set<std::string> WAITING = {
    "aten::_local_scalar_dense", "aten::nonzero",    "aten::masked_select",          "aten::equal",
    "aten::_unique2",            "aten::unique_dim", "aten::unique_consecutive",     "aten::bincount",
    "aten::is_nonzero",          "aten::item",       "aten::repeat_interleave.Tensor"};

// A tensor of a device may be indexed by places that the processor holds; torch then sends them over.
const std::set<std::string> INDEXING = {"aten::index.Tensor", "aten::index_put", "aten::index_put_",
                                        "aten::_index_put_impl_"};

// ---- memory

struct Memory final : at::Allocator {
  at::DataPtr allocate(size_t n) override {
    void* data = c10::alloc_cpu(n);
    return {data, data, &release, HERE};
  }
  static void release(void* data) {
    if (data) c10::free_cpu(data);
  }
  at::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t n) const final { default_copy_data(to, from, n); }
};
Memory memory;

at::Tensor over(c10::Storage storage, c10::DispatchKeySet keys, const at::Tensor& like) {
  auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  return made;
}

// The same memory as a tensor of the processor. It may be resized there, which gives it other memory.
at::Tensor seen(const at::Tensor& t) {
  if (!t.defined() || t.device().is_cpu()) return t;
  auto& held = t.storage();
  c10::Storage storage(c10::Storage::use_byte_size_t(), held.nbytes(), at::DataPtr(held.mutable_data(), at::kCPU),
                       c10::GetCPUAllocator(), true);
  return over(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), t);
}

// A tensor of the device over the memory of one of the processor, which lives as long.
at::Tensor taken(const at::Tensor& t) {
  if (!t.defined()) return t;
  check_type(t.scalar_type());
  auto* held = new at::Tensor(t);
  at::DataPtr data(t.storage().mutable_data(), held, [](void* kept) { delete static_cast<at::Tensor*>(kept); }, HERE);
  c10::Storage storage(c10::Storage::use_byte_size_t(), t.storage().nbytes(), std::move(data), &memory, true);
  return over(std::move(storage), KEYS, t);
}

// ---- any operation

struct Operands {
  bool on_device = false, on_processor = false, generator = false, mask = false;
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;  // on the device, as the processor sees it

  at::Tensor add(const at::Tensor& t) {
    if (!t.defined()) return t;
    if (t.device().is_cpu()) {
      on_processor = on_processor || t.dim() > 0;  // single numbers may mix
      return t;
    }
    on_device = true;
    for (auto& [mine, other] : pairs)
      if (mine.is_same(t)) return other;
    pairs.emplace_back(t, seen(t));
    return pairs.back().second;
  }

  c10::IValue add(const c10::IValue& value) {
    if (value.isTensor()) return add(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const auto& t : value.toTensorVector()) list.push_back(add(t));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor> t : value.toOptionalTensorList()) {
        mask = mask || (t && t->defined() && (t->scalar_type() == at::kBool || t->scalar_type() == at::kByte));
        list.push_back(t ? std::optional<at::Tensor>(add(*t)) : std::nullopt);
      }
      return list;
    }
    if (value.isGenerator()) generator = true;
    if (value.isDevice()) return c10::IValue(at::Device(at::kCPU));
    return value;
  }

  // What an operation gave back: an operand that it wrote to, or something new.
  at::Tensor back(const at::Tensor& t) const {
    if (!t.defined()) return t;
    for (auto& [mine, other] : pairs) {
      if (other.is_same(t)) return mine;
      TORCH_CHECK(!other.storage().is_alias_of(t.storage()), "second device: a view needs a kernel of its own");
    }
    return taken(t);
  }

  // An operand that the processor had to resize gets the new memory.
  void adopt() const {
    for (auto& [mine, other] : pairs) {
      if (mine.storage().data() == other.storage().data() && mine.sizes() == other.sizes()) continue;
      auto fresh = taken(other.clone());
      mine.unsafeGetTensorImpl()->set_storage_keep_dtype(fresh.storage());
      mine.unsafeGetTensorImpl()->set_sizes_and_strides(fresh.sizes(), fresh.strides(), fresh.storage_offset());
    }
  }
};

void on_the_processor(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto name = c10::toString(op.operator_name());
  auto arguments = op.schema().arguments().size(), results = op.schema().returns().size();
  Operands operands;
  bool first_is_here = stack->size() < arguments || arguments == 0 || !stack->at(stack->size() - arguments).isTensor() ||
                       !stack->at(stack->size() - arguments).toTensor().device().is_cpu();
  for (auto it = stack->end() - arguments; it != stack->end(); ++it) *it = operands.add(*it);

  TORCH_CHECK(!operands.generator, "second device: ", name, " got a generator of the processor");
  bool indexing = INDEXING.count(name) > 0;
  bool mixed = operands.on_processor && operands.on_device;
  TORCH_CHECK(!mixed || (indexing && first_is_here), "second device: ", name, " got tensors on two devices");
  if (WAITING.count(name) || (indexing && operands.mask)) ++reads_back;
  if (mixed) ++uploads;

  {
    at::AutoDispatchBelowADInplaceOrView plain;
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    operands.adopt();
  }
  for (auto it = stack->end() - results; it != stack->end(); ++it) {
    if (it->isTensor()) {
      *it = operands.back(it->toTensor());
    } else if (it->isTensorList()) {
      c10::List<at::Tensor> list;
      for (const auto& t : it->toTensorVector()) list.push_back(operands.back(t));
      *it = list;
    }
  }
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_processor>()); }

// ---- what cannot go that way: making, copying, views, convolutions

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  check_type(c10::dtype_or_default(type));
  return at::detail::empty_generic(size, &memory, KEYS, c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  check_type(c10::dtype_or_default(type));
  return at::detail::empty_strided_generic(size, stride, &memory, KEYS, c10::dtype_or_default(type));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  bool here = !from.device().is_cpu(), there = !to.device().is_cpu();
  check_type(from.scalar_type());
  check_type(to.scalar_type());
  if (here && !there) ++reads_back;
  if (there && !here) ++uploads;
  at::NoGradGuard plain;
  seen(to).copy_(seen(from));
  return to;
}

const at::Tensor& resize(const at::Tensor& t, c10::SymIntArrayRef size, std::optional<at::MemoryFormat> format) {
  auto other = seen(t);
  other.resize_(C10_AS_INTARRAYREF_SLOW(size), format);
  Operands one;
  one.pairs.emplace_back(t, other);
  one.adopt();
  return t;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (from.sizes() != to.sizes()) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Tensor as_strided(const at::Tensor& t, c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<int64_t> at) {
  return at::native::as_strided_tensorimpl(t, size, stride, at);
}
at::Tensor view(const at::Tensor& t, c10::IntArrayRef size) { return at::native::view(t, size); }
at::Tensor reshape_alias(const at::Tensor& t, c10::IntArrayRef size, c10::IntArrayRef stride) {
  return at::native::_reshape_alias(t, size, stride);
}
at::Tensor unfold(const at::Tensor& t, int64_t d, int64_t size, int64_t step) {
  return at::native::unfold(t, d, size, step);
}

at::Tensor convolution(const at::Tensor& x, const at::Tensor& w, const std::optional<at::Tensor>& b,
                       c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
                       c10::IntArrayRef out, int64_t groups) {
  TORCH_CHECK(!x.device().is_cpu() && !w.device().is_cpu() && !(b && b->defined() && b->device().is_cpu()),
              "second device: aten::convolution got tensors on two devices");
  at::AutoDispatchBelowADInplaceOrView plain;
  std::optional<at::Tensor> bias = b ? std::optional<at::Tensor>(seen(*b)) : std::nullopt;
  return taken(at::convolution(seen(x), seen(w), bias, stride, padding, dilation, transposed, out, groups));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& slope, const at::Tensor& x, const at::Tensor& w, c10::IntArrayRef stride,
    c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed, c10::IntArrayRef out, int64_t groups,
    std::array<bool, 3> wanted) {
  TORCH_CHECK(!slope.device().is_cpu() && !x.device().is_cpu() && !w.device().is_cpu(),
              "second device: aten::convolution_backward got tensors on two devices");
  at::AutoDispatchBelowADInplaceOrView plain;
  const std::vector<int64_t> outputs = {transposed ? w.size(1) * groups : w.size(0)};
  auto found = at::convolution_backward(seen(slope), seen(x), seen(w), c10::IntArrayRef(outputs), stride, padding,
                                        dilation, transposed, out, groups, wanted);
  return {taken(std::get<0>(found)), taken(std::get<1>(found)), taken(std::get<2>(found))};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("resize_", resize);
  m.impl("as_strided", as_strided);
  m.impl("view", view);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("unfold", unfold);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
  // torch has versions of these for devices without a kernel; one cannot take every memory layout, one warns.
  m.impl("native_group_norm", torch::CppFunction::makeFromBoxedFunction<&on_the_processor>());
  m.impl("mse_loss", torch::CppFunction::makeFromBoxedFunction<&on_the_processor>());
}

// ---- autocast, as CUDA has it: products in bfloat16, norms and losses in float32

template <at::ScalarType wanted>
void cast_first(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard below(c10::DispatchKey::AutocastPrivateUse1);
  auto arguments = op.schema().arguments().size();
  for (auto it = stack->end() - arguments; it != stack->end(); ++it) {
    if (!it->isTensor() || !it->toTensor().defined()) continue;
    auto type = it->toTensor().scalar_type();
    if (type == at::kFloat || type == at::kBFloat16) *it = it->toTensor().to(wanted);
  }
  op.callBoxed(stack);
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  for (auto name : {"conv1d", "conv2d", "linear", "matmul", "addmm", "mm", "bmm", "baddbmm"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&cast_first<at::kBFloat16>>());
  for (auto name : {"group_norm", "layer_norm", "softmax.int", "log_softmax.int", "nll_loss", "mse_loss"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&cast_first<at::kFloat>>());
}

// ---- what torch asks of every device: there is one, and it is always done

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, HERE); }
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device) const override { return HERE; }
  c10::Device getDevice() const override { return HERE; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const override { return stream(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  bool isPinnedPtr(const void*) const override { return false; }
};

Hooks hooks;
const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(&hooks);
  return true;
}();

}  // namespace

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &memory)
namespace c10::impl {
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)
}

extern "C" {
long second_device_reads_back() { return reads_back; }
long second_device_uploads() { return uploads; }
void second_device_without_doubles(bool refuse) { without_doubles = refuse; }
}
