// The text half of an ncnn model: the text of a .param file, line by line, before its
// interpretation. Format: https://github.com/Tencent/ncnn/wiki/param-and-model-file-structure
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace upscaled {

// The `id=value` fields of one layer. Reading a parameter marks it. CheckAllRead then fails on
// unread ones, because ignoring a parameter would produce a wrong image.
class NcnnParams {
 public:
  // One field: "id=number" or "id=count,number,...", where an array's id is -23300 - id.
  absl::Status Parse(std::string_view field);

  // The parameter, or `missing` when the file does not give it. INVALID_ARGUMENT when it is an
  // array, or no integer.
  absl::StatusOr<int> Int(int id, int missing);
  absl::StatusOr<float> Float(int id, float missing);
  absl::StatusOr<std::vector<float>> Array(int id);  // empty when missing

  // UNIMPLEMENTED unless the parameter is missing or `value`.
  absl::Status Expect(int id, const char* meaning, int value);
  // UNIMPLEMENTED names an unread parameter.
  absl::Status CheckAllRead() const;

 private:
  std::map<int, std::vector<double>> values_;
  std::set<int> arrays_;
  std::set<int> read_;
};

struct NcnnLayer {
  std::string type;
  std::string name;
  std::vector<std::string> inputs;  // blob names
  std::vector<std::string> outputs;
  NcnnParams params;
};

// INVALID_ARGUMENT names the line.
absl::StatusOr<std::vector<NcnnLayer>> ParseNcnnParam(std::string_view text);

// The first line of every .param file.
inline constexpr std::string_view kNcnnMagic = "7767517";

}  // namespace upscaled
