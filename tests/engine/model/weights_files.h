// Files of weights written by hand, as PyTorch and safetensors write them, and as they do not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace upscaled::test {

// `value`'s bytes, the lowest first.
std::string LittleEndian(uint64_t value, int bytes);
std::string FloatBytes(const std::vector<float>& values);

// The header's length, the header and the values.
std::string Safetensors(std::string_view header, std::string_view values);

struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;
};

// A .safetensors file of such tensors, all of 0.5.
std::string SafetensorsOf(const std::vector<NamedShape>& tensors);
// Weights [out][in][kernel][kernel] and their bias.
std::vector<NamedShape> ConvShapes(const std::string& module, int64_t out, int64_t in,
                                   int64_t kernel);

// Pieces of a pickle of protocol 2. A pickle is their sum, between kPickleBegin and ".".
inline constexpr std::string_view kPickleBegin("\x80\x02", 2);
std::string PickleString(std::string_view text);
std::string PickleInt(int32_t value);
std::string PickleLong(int64_t value);
std::string PickleGlobal(std::string_view module, std::string_view name);
std::string PickleInts(const std::vector<int64_t>& values);  // a tuple

struct PickledTensor {
  std::string name;
  std::string storage;  // the key; a class of storages is FloatStorage and so on
  int64_t storage_values = 0;
  int64_t offset = 0;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  std::string storage_class = "FloatStorage";
};

std::string PickleStorage(const PickledTensor& tensor);
// The call of torch._utils._rebuild_tensor_v2.
std::string PickleTensor(const PickledTensor& tensor);
// An OrderedDict with the attribute that state_dict() gives it; no whole pickle.
std::string PickleStateDict(const std::vector<PickledTensor>& tensors);
// {name: value}
std::string PickleDict(const std::vector<std::pair<std::string, std::string>>& entries);
std::string Pickle(std::string_view value);

struct ZipEntry {
  std::string name;
  std::string bytes;
  int method = 0;          // 8: deflate; the bytes are not changed
  int flags = 0;           // 1: encrypted
  uint32_t wrong_crc = 0;  // changes the checksum
};

std::string Zip(const std::vector<ZipEntry>& entries);
// As torch.save since 1.6: the pickle, and a file for each storage.
std::string PytorchZip(const std::string& pickle, const std::vector<ZipEntry>& storages);

struct StackedStorage {
  std::string key;
  int64_t count = 0;
  std::string bytes;
};

// As torch.save before 1.6.
std::string PytorchStacked(const std::string& pickle, const std::vector<StackedStorage>& storages);

}  // namespace upscaled::test
