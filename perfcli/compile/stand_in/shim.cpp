// Stands in for the parts of a CUDA device that torch's C++ asks for while a model is traced:
// a device guard, the CUDA hooks, and the choice of the attention backend.
// Seen with torch 2.11 to 2.15, CPU and CUDA builds. Must be loaded before `import torch`
// (the hooks are looked up once, by key); perfcli_install() is called after it, because a CUDA
// build registers its own guard and its own chooser while it is imported.
#include <ATen/core/Tensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/transformers/attention.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

constexpr DeviceType kCuda = DeviceType::CUDA;
constexpr int64_t kMaxDims = 8;

// Autograd's engine starts a thread for each, and its process can't be forked any more.
DeviceIndex devices_of_the_engine = 1;

// Every stream and device at index 0: the engine uses the index to address its ready queues.
struct OfflineGuard final : c10::impl::DeviceGuardImplInterface {
  static Stream stream() { return Stream(Stream::DEFAULT, Device(kCuda, 0)); }
  DeviceType type() const override { return kCuda; }
  Device exchangeDevice(Device) const override { return Device(kCuda, 0); }
  Device getDevice() const override { return Device(kCuda, 0); }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}
  Stream getStream(Device) const noexcept override { return stream(); }
  Stream getDefaultStream(Device) const override { return stream(); }
  Stream getStreamFromGlobalPool(Device, bool) const override { return stream(); }
  Stream getNewStream(Device, int) const override { return stream(); }
  Stream exchangeStream(Stream) const noexcept override { return stream(); }
  DeviceIndex deviceCount() const noexcept override { return devices_of_the_engine; }
  void record(void**, const Stream&, const DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const DeviceIndex) const noexcept override {}
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override {}
  void synchronizeDevice(const DeviceIndex) const override {}
};

}  // namespace

// Plain data, mirrored field by field in compile/shim.py.
struct PerfcliTensor {
  int64_t defined;
  int64_t ndim;
  int64_t dtype;
  int64_t requires_grad;
  int64_t nested;
  int64_t storage_offset;
  int64_t sizes[kMaxDims];    // negative: symbolic, equal numbers are equal expressions
  int64_t strides[kMaxDims];  // likewise
};

struct PerfcliAttention {
  PerfcliTensor query, key, value, mask;
  double dropout_p;
  int64_t is_causal;
  int64_t enable_gqa;
};

using PerfcliChooser = int64_t (*)(const PerfcliAttention*);

namespace {

PerfcliChooser chooser = nullptr;
int64_t cudnn_version = 0;

// Symbolic sizes must not be guarded on: that would specialise the graph being traced.
int64_t number(const c10::SymInt& value) {
  const auto known = value.maybe_as_int();
  if (known) return *known;
  const auto text = value.toSymNode()->str();
  return -1 - static_cast<int64_t>(std::hash<std::string>{}(text) >> 2);
}

PerfcliTensor describe(const at::Tensor& tensor) {
  PerfcliTensor out{};
  if (!tensor.defined()) return out;
  out.defined = 1;
  out.dtype = static_cast<int64_t>(tensor.scalar_type());
  out.requires_grad = tensor.requires_grad();
  out.nested = tensor.is_nested();
  if (out.nested) return out;
  out.ndim = std::min<int64_t>(tensor.dim(), kMaxDims);
  out.storage_offset = number(tensor.sym_storage_offset());
  const auto sizes = tensor.sym_sizes();
  const auto strides = tensor.sym_strides();
  for (int64_t i = 0; i < out.ndim; ++i) {
    out.sizes[i] = number(sizes[i]);
    out.strides[i] = number(strides[i]);
  }
  return out;
}

int64_t choose_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const std::optional<at::Tensor>& mask, double dropout_p, bool is_causal,
                         std::optional<double> /*scale*/, bool enable_gqa) {
  PerfcliAttention call{describe(query), describe(key), describe(value),
                        mask ? describe(*mask) : PerfcliTensor{}, dropout_p, is_causal, enable_gqa};
  return chooser == nullptr ? 0 : chooser(&call);
}

}  // namespace

extern "C" void perfcli_install(PerfcliChooser attention, int64_t cudnn) {
  chooser = attention;
  cudnn_version = cudnn;
  static c10::impl::DeviceGuardImplRegistrar guard(kCuda, new OfflineGuard());
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose_attention);
}

extern "C" void perfcli_devices_of_the_engine(int64_t count) {
  devices_of_the_engine = static_cast<DeviceIndex>(count);
}

namespace at {

struct CUDAHooks final : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return false; }
  DeviceIndex current_device() const override { return 0; }
  DeviceIndex deviceCount() const override { return 1; }
  int getNumGPUs() const override { return 1; }
  bool hasCuDNN() const override { return true; }
  bool compiledWithCuDNN() const override { return true; }
  long versionCuDNN() const override { return cudnn_version; }
  long versionRuntimeCuDNN() const override { return cudnn_version; }
  long versionCuDNNFrontend() const override { return 11600; }
  long versionCUDART() const override { return 13000; }
  // torch.__config__.show(), which libraries print or search while they are imported.
  std::string showConfig() const override { return "  - CUDA Runtime, stood in for\n"; }
  double batchnormMinEpsilonCuDNN() const override { return 0.0; }  // CUDNN_BN_MIN_EPSILON
  bool supportsDilatedConvolutionWithCuDNN() const override { return true; }
  bool supportsBFloat16ConvolutionWithCuDNNv8() const override { return true; }
};

static RegistererCUDAHooksRegistry perfcli_hooks(
    "CUDAHooks", c10::REGISTRY_PREFERRED, CUDAHooksRegistry(),
    RegistererCUDAHooksRegistry::DefaultCreator<CUDAHooks>);

}  // namespace at
