#include "engine/model/pytorch/unpickler.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/model/limits.h"
#include "engine/model/pytorch/globals.h"
#include "engine/model/pytorch/opcodes.h"
#include "engine/model/pytorch/pickle_reader.h"

namespace upscaled::pytorch {
namespace {

// The protocol of torch.save: text-free, and without the calls of later ones.
constexpr int kProtocol = 2;

class Unpickler {
 public:
  explicit Unpickler(std::string_view bytes) : reader_(bytes) {}

  absl::StatusOr<Objects> Run() {
    for (size_t opcodes = 0; !done_; ++opcodes) {
      const size_t at = reader_.position();
      const absl::Status status = opcodes < kMaxPickleOpcodes ? Step() : TooLong();
      if (!status.ok()) {
        return absl::Status(status.code(), absl::StrCat(status.message(), " (at byte ", at, ")"));
      }
    }
    objects_.read_bytes = reader_.position();
    return std::move(objects_);
  }

 private:
  static absl::Status TooLong() {
    return absl::ResourceExhaustedError(
        absl::StrCat("the pickle has more than ", kMaxPickleOpcodes, " opcodes, the limit"));
  }

  absl::Status Step() {
    ASSIGN_OR_RETURN(const uint64_t code, reader_.Number(1));
    const Opcode opcode{static_cast<uint8_t>(code)};
    switch (opcode) {
      case Opcode::kProto:
        return CheckProtocol();
      case Opcode::kStop:
        return Stop();
      case Opcode::kMark:
        marks_.push_back(stack_.size());
        return CheckLimit(marks_.size());
      case Opcode::kBinPut:
        return Put(1);
      case Opcode::kLongBinPut:
        return Put(4);
      case Opcode::kBinGet:
        return Get(1);
      case Opcode::kLongBinGet:
        return Get(4);
      case Opcode::kGlobal:
        return PushGlobal();
      case Opcode::kBinPersId:
        return Persistent();
      case Opcode::kReduce:
        return Reduce();
      case Opcode::kBuild:
        return Build();
      default:
        return Gather(opcode);
    }
  }

  // Opcodes to put values of the stack into a container.
  absl::Status Gather(Opcode opcode) {
    switch (opcode) {
      case Opcode::kTuple1:
      case Opcode::kTuple2:
      case Opcode::kTuple3:
        return MakeTuple(1 + static_cast<size_t>(opcode) - static_cast<size_t>(Opcode::kTuple1));
      case Opcode::kTuple:
        return MakeMarkedTuple();
      case Opcode::kAppend:
        return Extend(Kind::kList, 1);
      case Opcode::kSetItem:
        return Extend(Kind::kDict, 2);
      case Opcode::kAppends:
        return ExtendMarked(Kind::kList);
      case Opcode::kSetItems:
        return ExtendMarked(Kind::kDict);
      default:
        return PushPlain(opcode);
    }
  }

  // Opcodes to put a value on the stack, without a look at the stack.
  absl::Status PushPlain(Opcode opcode) {
    switch (opcode) {
      case Opcode::kNone:
        return Push({.kind = Kind::kNone});
      case Opcode::kNewTrue:
      case Opcode::kNewFalse:
        return Push({.kind = Kind::kNumber, .number = opcode == Opcode::kNewTrue});
      case Opcode::kEmptyTuple:
        return Push({.kind = Kind::kTuple});
      case Opcode::kEmptyList:
        return Push({.kind = Kind::kList});
      case Opcode::kEmptyDict:
        return Push({.kind = Kind::kDict});
      case Opcode::kBinInt1:
        return PushNumber(1);
      case Opcode::kBinInt2:
        return PushNumber(2);
      case Opcode::kBinInt: {
        ASSIGN_OR_RETURN(const uint64_t number, reader_.Number(4));
        return Push({.kind = Kind::kNumber, .number = static_cast<int32_t>(number)});
      }
      case Opcode::kLong1:
        return PushLong();
      case Opcode::kBinFloat:  // learning rates and the like: no use for them here
        RETURN_IF_ERROR(reader_.Take(8).status());
        return Push({.kind = Kind::kNumber});
      case Opcode::kShortBinString:
        return PushString(1);
      case Opcode::kBinString:
      case Opcode::kBinUnicode:
        return PushString(4);
      default:
        return absl::UnimplementedError(
            absl::StrFormat("the pickle has the opcode %s (0x%02x), which no file of weights needs",
                            std::string(OpcodeName(opcode)), static_cast<int>(opcode)));
    }
  }

  absl::Status CheckProtocol() {
    ASSIGN_OR_RETURN(const uint64_t protocol, reader_.Number(1));
    if (protocol == kProtocol) return absl::OkStatus();
    return absl::UnimplementedError(
        absl::StrCat("the pickle is of protocol ", protocol, ", torch.save writes ", kProtocol));
  }

  static absl::Status CheckLimit(size_t count) {
    if (count <= kMaxPickleValues) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("the pickle holds more than ", kMaxPickleValues, " values, the limit"));
  }

  // The stack.
  absl::Status Push(Value value) {
    objects_.values.push_back(std::move(value));
    stack_.push_back(static_cast<int>(objects_.values.size()) - 1);
    return CheckLimit(objects_.values.size());
  }

  absl::Status PushNumber(int bytes) {
    ASSIGN_OR_RETURN(const uint64_t number, reader_.Number(bytes));
    return Push({.kind = Kind::kNumber, .number = static_cast<int64_t>(number)});
  }

  // Two's complement of any length.
  absl::Status PushLong() {
    ASSIGN_OR_RETURN(const uint64_t length, reader_.Number(1));
    ASSIGN_OR_RETURN(const std::string_view digits, reader_.Take(length));
    int64_t number = 0;
    if (length > sizeof number) {
      return absl::UnimplementedError(absl::StrCat("the pickle has a number of ", length,
                                                   " bytes, the limit is ", sizeof number));
    }
    if (!digits.empty() && (digits.back() & 0x80) != 0) number = -1;
    std::memcpy(&number, digits.data(), digits.size());
    return Push({.kind = Kind::kNumber, .number = number});
  }

  absl::Status PushString(int length_bytes) {
    ASSIGN_OR_RETURN(const uint64_t length, reader_.Number(length_bytes));
    ASSIGN_OR_RETURN(const std::string_view text, reader_.Take(length));
    return Push({.kind = Kind::kString, .text = text});
  }

  absl::Status PushGlobal() {
    ASSIGN_OR_RETURN(const std::string_view module, reader_.Line());
    ASSIGN_OR_RETURN(const std::string_view name, reader_.Line());
    ASSIGN_OR_RETURN(Value global, FindGlobal(module, name));
    return Push(std::move(global));
  }

  // `count` values must lie on the stack above the last mark.
  absl::Status CheckDepth(size_t count) const {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - floor >= count) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "the pickle takes ", count, " values from a stack of ", stack_.size() - floor));
  }

  absl::StatusOr<int> Pop() {
    RETURN_IF_ERROR(CheckDepth(1));
    const int value = stack_.back();
    stack_.pop_back();
    return value;
  }

  // Removes the last mark, and returns the number of values above it.
  absl::StatusOr<size_t> PopMark() {
    if (marks_.empty()) return absl::InvalidArgumentError("the pickle lacks a mark");
    const size_t count = stack_.size() - marks_.back();
    marks_.pop_back();
    return count;
  }

  absl::Status MakeTuple(size_t count) {
    RETURN_IF_ERROR(CheckDepth(count));
    Value tuple{.kind = Kind::kTuple};
    tuple.elements.assign(stack_.end() - count, stack_.end());
    stack_.resize(stack_.size() - count);
    return Push(std::move(tuple));
  }

  absl::Status MakeMarkedTuple() {
    ASSIGN_OR_RETURN(const size_t count, PopMark());
    return MakeTuple(count);
  }

  // Moves the last `count` values into the container below them.
  absl::Status Extend(Kind kind, size_t count) {
    RETURN_IF_ERROR(CheckDepth(count + 1));
    Value& container = objects_.values[stack_[stack_.size() - count - 1]];
    if (container.kind != kind || (kind == Kind::kDict && count % 2 != 0)) {
      return absl::InvalidArgumentError(absl::StrCat("the pickle puts ", count, " values into ",
                                                     ToAbsl(KindName(container.kind))));
    }
    container.elements.insert(container.elements.end(), stack_.end() - count, stack_.end());
    stack_.resize(stack_.size() - count);
    return absl::OkStatus();
  }

  absl::Status ExtendMarked(Kind kind) {
    ASSIGN_OR_RETURN(const size_t count, PopMark());
    return Extend(kind, count);
  }

  // The memo.
  absl::Status Put(int index_bytes) {
    ASSIGN_OR_RETURN(const uint64_t index, reader_.Number(index_bytes));
    RETURN_IF_ERROR(CheckDepth(1));
    RETURN_IF_ERROR(CheckLimit(index + 1));
    if (index >= memo_.size()) memo_.resize(index + 1, -1);
    memo_[index] = stack_.back();
    return absl::OkStatus();
  }

  absl::Status Get(int index_bytes) {
    ASSIGN_OR_RETURN(const uint64_t index, reader_.Number(index_bytes));
    if (index >= memo_.size() || memo_[index] < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the pickle takes value ", index, ", which it has not kept"));
    }
    stack_.push_back(memo_[index]);
    return CheckLimit(stack_.size());
  }

  // Opcodes for calls.
  absl::Status Persistent() {
    ASSIGN_OR_RETURN(const int id, Pop());
    ASSIGN_OR_RETURN(Value storage, LoadPersistent(objects_.values[id], objects_));
    return Push(std::move(storage));
  }

  absl::Status Reduce() {
    RETURN_IF_ERROR(CheckDepth(2));
    ASSIGN_OR_RETURN(const int arguments, Pop());
    ASSIGN_OR_RETURN(const int callee, Pop());
    ASSIGN_OR_RETURN(Value result,
                     Call(objects_.values[callee], objects_.values[arguments], objects_));
    return Push(std::move(result));
  }

  // Attributes of an object: a state_dict has one, the modules' versions. Nothing reads them.
  absl::Status Build() {
    RETURN_IF_ERROR(CheckDepth(2));
    ASSIGN_OR_RETURN(const int state, Pop());
    const Value& object = objects_.values[stack_.back()];
    if (object.kind == Kind::kDict && objects_.values[state].kind == Kind::kDict) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("the pickle gives ", ToAbsl(KindName(object.kind)), " attributes"));
  }

  absl::Status Stop() {
    if (stack_.size() != 1 || !marks_.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the pickle ends with ", stack_.size(), " values, must be one"));
    }
    objects_.root = stack_.back();
    done_ = true;
    return absl::OkStatus();
  }

  PickleReader reader_;
  bool done_ = false;
  Objects objects_;
  std::vector<int> stack_;     // values
  std::vector<size_t> marks_;  // sizes that the stack had
  std::vector<int> memo_;      // values; -1: none
};

}  // namespace

absl::StatusOr<Objects> Unpickle(std::string_view bytes) { return Unpickler(bytes).Run(); }

}  // namespace upscaled::pytorch
