#include "tests/engine/model/weights_files.h"

#include <zlib.h>

namespace upscaled::test {
namespace {

// The common part of local and central headers, from the version to the lengths of the name.
std::string ZipHeader(const ZipEntry& entry) {
  const auto* bytes = reinterpret_cast<const Bytef*>(entry.bytes.data());
  const uint64_t crc = crc32(0, bytes, entry.bytes.size()) ^ entry.wrong_crc;
  const uint64_t size = entry.bytes.size();
  return LittleEndian(20, 2) + LittleEndian(entry.flags, 2) + LittleEndian(entry.method, 2) +
         LittleEndian(0, 4) + LittleEndian(crc, 4) + LittleEndian(size, 4) + LittleEndian(size, 4) +
         LittleEndian(entry.name.size(), 2) + LittleEndian(0, 2);
}

}  // namespace

std::string LittleEndian(uint64_t value, int bytes) {
  std::string result;
  for (int i = 0; i < bytes; ++i, value >>= 8) result.push_back(static_cast<char>(value & 255));
  return result;
}

std::string FloatBytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::string Safetensors(std::string_view header, std::string_view values) {
  return LittleEndian(header.size(), 8).append(header).append(values);
}

std::string SafetensorsOf(const std::vector<NamedShape>& tensors) {
  std::string header = "{";
  std::vector<float> values;
  for (const NamedShape& tensor : tensors) {
    int64_t count = 1;
    std::string shape;
    for (const int64_t side : tensor.shape) {
      count *= side;
      shape += (shape.empty() ? "" : ", ") + std::to_string(side);
    }
    const size_t begin = values.size() * sizeof(float);
    values.resize(values.size() + count, 0.5f);
    header += (header.size() > 1 ? ", \"" : "\"") + tensor.name +
              "\": {\"dtype\": \"F32\", \"shape\": [" + shape + "], \"data_offsets\": [" +
              std::to_string(begin) + ", " + std::to_string(values.size() * sizeof(float)) + "]}";
  }
  return Safetensors(header + "}", FloatBytes(values));
}

std::vector<NamedShape> ConvShapes(const std::string& module, int64_t out, int64_t in,
                                   int64_t kernel) {
  return {{module + ".weight", {out, in, kernel, kernel}}, {module + ".bias", {out}}};
}

std::string PickleString(std::string_view text) {
  return "X" + LittleEndian(text.size(), 4).append(text);
}

std::string PickleInt(int32_t value) { return "J" + LittleEndian(static_cast<uint32_t>(value), 4); }

std::string PickleLong(int64_t value) {
  return "\x8a\x08" + LittleEndian(static_cast<uint64_t>(value), 8);
}

std::string PickleGlobal(std::string_view module, std::string_view name) {
  return std::string("c").append(module).append("\n").append(name).append("\n");
}

std::string PickleInts(const std::vector<int64_t>& values) {
  std::string tuple = "(";
  for (const int64_t value : values) tuple += PickleLong(value);
  return tuple + "t";
}

std::string PickleStorage(const PickledTensor& tensor) {
  return "(" + PickleString("storage") + PickleGlobal("torch", tensor.storage_class) +
         PickleString(tensor.storage) + PickleString("cpu") + PickleLong(tensor.storage_values) +
         "tQ";
}

std::string PickleTensor(const PickledTensor& tensor) {
  return PickleGlobal("torch._utils", "_rebuild_tensor_v2") + "(" + PickleStorage(tensor) +
         PickleLong(tensor.offset) + PickleInts(tensor.shape) + PickleInts(tensor.strides) +
         "\x89" + PickleGlobal("collections", "OrderedDict") + ")RtR";
}

std::string PickleStateDict(const std::vector<PickledTensor>& tensors) {
  std::string dict = PickleGlobal("collections", "OrderedDict") + ")Rq";
  dict.append("\0(", 2);
  for (const PickledTensor& tensor : tensors) {
    dict += PickleString(tensor.name) + PickleTensor(tensor);
  }
  return dict + "u}" + PickleString("_metadata") + "}sb";
}

std::string PickleDict(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string dict = "}(";
  for (const auto& [name, value] : entries) dict += PickleString(name) + value;
  return dict + "u";
}

std::string Pickle(std::string_view value) {
  return std::string(kPickleBegin).append(value).append(".");
}

std::string Zip(const std::vector<ZipEntry>& entries) {
  std::string file, directory;
  for (const ZipEntry& entry : entries) {
    directory += "PK\1\2" + LittleEndian(20, 2) + ZipHeader(entry) + LittleEndian(0, 10) +
                 LittleEndian(file.size(), 4) + entry.name;
    file += "PK\3\4" + ZipHeader(entry) + entry.name + entry.bytes;
  }
  const size_t at = file.size();
  return file + directory + "PK\5\6" + LittleEndian(0, 4) + LittleEndian(entries.size(), 2) +
         LittleEndian(entries.size(), 2) + LittleEndian(directory.size(), 4) + LittleEndian(at, 4) +
         LittleEndian(0, 2);
}

std::string PytorchZip(const std::string& pickle, const std::vector<ZipEntry>& storages) {
  std::vector<ZipEntry> entries = {{.name = "net/data.pkl", .bytes = pickle}};
  for (ZipEntry storage : storages) {
    storage.name = "net/data/" + storage.name;
    entries.push_back(storage);
  }
  entries.push_back({.name = "net/version", .bytes = "3\n"});
  return Zip(entries);
}

std::string PytorchStacked(const std::string& pickle, const std::vector<StackedStorage>& storages) {
  std::string keys = "](", values;
  for (const StackedStorage& storage : storages) {
    keys += PickleString(storage.key);
    values += LittleEndian(storage.count, 8) + storage.bytes;
  }
  const std::string magic("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19");
  return Pickle(magic) + Pickle("M" + LittleEndian(1001, 2)) +
         Pickle(PickleDict(
             {{"protocol_version", "M" + LittleEndian(1001, 2)}, {"little_endian", "\x88"}})) +
         pickle + Pickle(keys + "e") + values;
}

}  // namespace upscaled::test
