// The opcodes of pickle. Opcodes with an enumerator are allowed; the others have only names.
#pragma once

#include <cstdint>
#include <string_view>

namespace upscaled::pytorch {

enum class Opcode : uint8_t {
  kProto = 0x80,
  kStop = '.',
  kMark = '(',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kGlobal = 'c',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBuild = 'b',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kAppend = 'a',
  kAppends = 'e',
  kSetItem = 's',
  kSetItems = 'u',
  kNone = 'N',
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDict = '}',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8a,
  kBinFloat = 'G',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
};

// For messages; also of opcodes not allowed.
std::string_view OpcodeName(Opcode opcode);

}  // namespace upscaled::pytorch
