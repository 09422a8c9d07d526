#include "engine/model/pytorch/loader.h"

#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/bad_file_test.h"
#include "tests/engine/model/weights_files.h"

namespace upscaled {
namespace {

using test::BadFile;
using test::FloatBytes;
using test::Pickle;
using test::PickleDict;
using test::PickledTensor;
using test::PickleGlobal;
using test::PickleInt;
using test::PickleInts;
using test::PickleLong;
using test::PickleStateDict;
using test::PickleString;
using test::PickleTensor;
using test::PytorchStacked;
using test::PytorchZip;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kSix = FloatBytes({1, 2, 3, 4, 5, 6});

PickledTensor Six(std::string name) {
  return {.name = std::move(name),
          .storage = "0",
          .storage_values = 6,
          .shape = {2, 3},
          .strides = {3, 1}};
}

std::vector<float> ReadOk(const absl::StatusOr<std::unique_ptr<TensorFile>>& file,
                          std::string_view name) {
  EXPECT_TRUE(file.ok()) << file.status();
  const auto values = file.ok() ? (*file)->Read(name) : file.status();
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? *values : std::vector<float>();
}

TEST(PytorchTest, ReadsBothKindsOfFiles) {
  const std::string pickle = Pickle(PickleStateDict({Six("a")}));
  for (const std::string& bytes : {PytorchZip(pickle, {{.name = "0", .bytes = kSix}}),
                                   PytorchStacked(pickle, {{"0", 6, kSix}})}) {
    ASSERT_TRUE(LooksLikePytorch(std::string_view(bytes).substr(0, 16)));
    const auto file = ParsePytorch(bytes);
    EXPECT_THAT(ReadOk(file, "a"), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT((*file)->Find("a")->shape, ElementsAre(2, 3));
  }
}

TEST(PytorchTest, ReadsViewsOfOneStorage) {
  PickledTensor transposed = Six("transposed"), row = Six("row"), scalar = Six("scalar"),
                none = Six("none");
  transposed.shape = {3, 2};
  transposed.strides = {1, 3};
  row.shape = {2};
  row.strides = {2};
  row.offset = 3;
  scalar.shape = scalar.strides = {};
  scalar.offset = 5;
  none.shape = {2, 0};
  const auto file =
      ParsePytorch(PytorchZip(Pickle(PickleStateDict({Six("all"), transposed, row, scalar})),
                              {{.name = "0", .bytes = kSix}}));
  EXPECT_THAT(ReadOk(file, "transposed"), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(ReadOk(file, "row"), ElementsAre(4, 6));
  EXPECT_THAT(ReadOk(file, "scalar"), ElementsAre(6));
  EXPECT_THAT(ReadOk(ParsePytorch(PytorchZip(Pickle(PickleStateDict({none})),
                                             {{.name = "0", .bytes = kSix}})),
                     "none"),
              ElementsAre());
}

// As a flattened network is: a hundred tensors, each a row of one storage.
TEST(PytorchTest, TensorsMayBeViewsOfOneStorage) {
  constexpr int kRows = 100, kColumns = 1000;
  std::vector<float> values(kRows * kColumns);
  std::iota(values.begin(), values.end(), 0.0f);
  std::vector<PickledTensor> rows;
  for (int i = 0; i < kRows; ++i) {
    rows.push_back({.name = absl::StrCat("row", i),
                    .storage = "0",
                    .storage_values = kRows * kColumns,
                    .offset = i * kColumns,
                    .shape = {kColumns},
                    .strides = {1}});
  }
  const std::string pickle = Pickle(PickleStateDict(rows)), bytes = FloatBytes(values);
  for (const std::string& file_bytes : {PytorchZip(pickle, {{.name = "0", .bytes = bytes}}),
                                        PytorchStacked(pickle, {{"0", kRows * kColumns, bytes}})}) {
    const auto file = ParsePytorch(file_bytes);
    for (int i = 0; i < kRows; ++i) {
      const std::vector<float> row = ReadOk(file, absl::StrCat("row", i));
      ASSERT_EQ(row.size(), size_t{kColumns});
      EXPECT_EQ(row.front(), i * kColumns);
      EXPECT_EQ(row.back(), (i + 1) * kColumns - 1);
    }
  }
}

TEST(PytorchTest, ReadsHalves) {
  PickledTensor half = Six("half"), bfloat = Six("bfloat");
  half.storage_class = "HalfStorage";
  bfloat.storage_class = "BFloat16Storage";
  half.storage_values = bfloat.storage_values = 1;
  half.shape = half.strides = bfloat.shape = bfloat.strides = {1};
  bfloat.storage = "1";
  const std::string pickle = Pickle(PickleStateDict({half, bfloat}));
  const std::string one = test::LittleEndian(0x3c00, 2), two = test::LittleEndian(0x4000, 2);
  for (const std::string& bytes :
       {PytorchZip(pickle, {{.name = "0", .bytes = one}, {.name = "1", .bytes = two}}),
        PytorchStacked(pickle, {{"1", 1, two}, {"0", 1, one}})}) {
    const auto file = ParsePytorch(bytes);
    EXPECT_THAT(ReadOk(file, "half"), ElementsAre(1));
    EXPECT_THAT(ReadOk(file, "bfloat"), ElementsAre(2));
  }
}

TEST(PytorchTest, FindsTheNetworkInWhatTrainingSaved) {
  PickledTensor other = Six("module.other");
  const std::string averaged = PickleStateDict({Six("module.a"), Six("module.b")});
  const std::string last = PickleStateDict({other});
  const std::string whole = Pickle(PickleDict({{"iter", PickleInt(400000)},
                                               {"rate", "G" + std::string(8, '\0')},
                                               {"params", last},
                                               {"params_ema", averaged}}));
  const auto file = ParsePytorch(PytorchZip(whole, {{.name = "0", .bytes = kSix}}));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->tensors().size(), 2u);
  EXPECT_NE((*file)->Find("a"), nullptr);

  const std::string nested = Pickle(
      PickleDict({{"state_dict", PickleDict({{"generator", PickleStateDict({Six("netG.a")})}})}}));
  EXPECT_THAT(ReadOk(ParsePytorch(PytorchZip(nested, {{.name = "0", .bytes = kSix}})), "a"),
              ElementsAre(1, 2, 3, 4, 5, 6));
}

// Training programs save averages, networks next to them, and optimisers.
TEST(PytorchTest, TakesTheAverageOrTheOnlyNetwork) {
  const std::string average = PickleStateDict({Six("average")}),
                    last = PickleStateDict({Six("last")});
  const std::string optimizer =
      PickleDict({{"state", PickleDict({{"first", PickleStateDict({Six("moment")})}})}});
  const auto taken = [&](const std::string& value) -> std::string {
    const auto file = ParsePytorch(PytorchZip(Pickle(value), {{.name = "0", .bytes = kSix}}));
    return file.ok() ? (*file)->tensors().begin()->first : std::string(file.status().message());
  };
  for (const char* name : {"params_ema", "params-ema", "state_dict_ema", "model_ema",
                           "ema_state_dict", "g_ema", "generator_ema", "netG_ema", "ema"}) {
    for (const char* other : {"params", "state_dict", "model", "generator", "g", "net_g"}) {
      EXPECT_EQ(taken(PickleDict({{other, last}, {name, average}})), "average")
          << name << " and " << other;
    }
  }
  EXPECT_EQ(taken(PickleDict({{"ema", PickleDict({{"decay", PickleInt(1)}})}, {"model", last}})),
            "last");
  for (const char* name : {"net_g", "generator", "netG", "weights", "anything"}) {
    EXPECT_EQ(taken(PickleDict({{"iter", PickleInt(7)}, {"optimizer", optimizer}, {name, last}})),
              "last")
        << name;
  }
  EXPECT_THAT(taken(PickleDict({{"one", last}, {"other", average}})),
              HasSubstr("only ['one', 'other']"));
  EXPECT_THAT(taken(PickleDict({{"optimizer", optimizer}, {"iter", PickleInt(7)}})),
              HasSubstr("only ['optimizer', 'iter']"));
}

TEST(PytorchTest, MarksAmongTheTensorsAreKept) {
  const std::string pickle =
      Pickle("}(" + PickleString("a") + PickleTensor(Six("a")) + PickleString("pro") + "\x88u");
  const auto file = ParsePytorch(PytorchZip(pickle, {{.name = "0", .bytes = kSix}}));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->Has("pro"));
  EXPECT_EQ((*file)->Find("pro"), nullptr);
}

TEST(PytorchTest, OtherTypesAreNamedWhereTheyAreRead) {
  PickledTensor steps = Six("steps");
  steps.storage_class = "LongStorage";
  const std::string bytes = FloatBytes(std::vector<float>(12));
  const std::string pickle = Pickle(PickleStateDict({steps}));
  for (const std::string& file_bytes : {PytorchZip(pickle, {{.name = "0", .bytes = bytes}}),
                                        PytorchStacked(pickle, {{"0", 6, bytes}})}) {
    const auto file = ParsePytorch(file_bytes);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_THAT(std::string((*file)->Read("steps").status().message()),
                HasSubstr("'steps': has the type 'LongStorage'"));
  }
}

TEST(PytorchTest, DamagedValuesAreNoticed) {
  const auto file = ParsePytorch(PytorchZip(Pickle(PickleStateDict({Six("a")})),
                                            {{.name = "0", .bytes = kSix, .wrong_crc = 1}}));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(std::string((*file)->Read("a").status().message()), HasSubstr("CRC"));
}

class BadPytorchTest : public test::BadFileTest {};

TEST_P(BadPytorchTest, IsRefused) {
  const auto file = Load(ParsePytorch);
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(std::string(file.status().message()), HasSubstr(GetParam().message));
  EXPECT_LT(file.status().message().size(), 1000u);
}

std::string Repeat(std::string_view piece, int count) {
  std::string repeated;
  for (int i = 0; i < count; ++i) repeated.append(piece);
  return repeated;
}

// A whole file around what would be a pickle's value.
std::string WithValue(const std::string& value) {
  return PytorchZip(Pickle(value), {{.name = "0", .bytes = kSix}});
}

// A file that calls what it should not: global(argument).
std::string Calling(std::string_view module, std::string_view name) {
  return WithValue(PickleGlobal(module, name) + PickleString("touch /tmp/owned") + "\x85R");
}

std::string WithOpcode(std::string_view opcode) { return WithValue(std::string(opcode)); }

template <typename Change>
std::string WithTensor(Change change) {
  PickledTensor tensor = Six("a");
  change(tensor);
  return WithValue(PickleStateDict({tensor}));
}

// A file of ten tensors that are each all of its one storage.
std::string SharedTooOften() {
  constexpr int kValues = 1 << 18;
  std::vector<PickledTensor> tensors;
  for (int i = 0; i < 10; ++i) {
    tensors.push_back({.name = std::string(1, static_cast<char>('a' + i)),
                       .storage = "0",
                       .storage_values = kValues,
                       .shape = {kValues},
                       .strides = {1}});
  }
  return PytorchZip(Pickle(PickleStateDict(tensors)),
                    {{.name = "0", .bytes = std::string(kValues * sizeof(float), '\0')}});
}

// clang-format off
const BadFile kCalls[] = {
    {"OsSystem", Calling("os", "system"), "names 'os.system'"},
    {"PosixSystem", Calling("posix", "system"), "names 'posix.system'"},
    {"NtSystem", Calling("nt", "system"), "names 'nt.system'"},
    {"Eval", Calling("builtins", "eval"), "names 'builtins.eval'"},
    {"Exec", Calling("builtins", "exec"), "names 'builtins.exec'"},
    {"Getattr", Calling("builtins", "getattr"), "names 'builtins.getattr'"},
    {"Python2Eval", Calling("__builtin__", "eval"), "names '__builtin__.eval'"},
    {"Import", Calling("importlib", "import_module"), "names 'importlib.import_module'"},
    {"Popen", Calling("subprocess", "Popen"), "names 'subprocess.Popen'"},
    {"RunCode", Calling("runpy", "_run_code"), "names 'runpy._run_code'"},
    {"Browser", Calling("webbrowser", "open"), "names 'webbrowser.open'"},
    {"Socket", Calling("socket", "create_connection"), "names 'socket.create_connection'"},
    {"Operator", Calling("operator", "attrgetter"), "names 'operator.attrgetter'"},
    {"Codecs", Calling("_codecs", "encode"), "names '_codecs.encode'"},
    {"TorchLoad", Calling("torch", "load"), "names 'torch.load'"},
    {"TorchHub", Calling("torch.hub", "load"), "names 'torch.hub.load'"},
    {"TorchJit", Calling("torch.jit", "load"), "names 'torch.jit.load'"},
    {"Numpy", Calling("numpy.core.multiarray", "_reconstruct"), "names 'numpy.core.multiarray._reconstruct'"},
    {"WholeModel", Calling("torch.nn.modules.container", "Sequential"), "(save a state_dict)"},
    {"DottedName", Calling("collections", "OrderedDict.__init__"), "names 'collections.OrderedDict.__init__'"},
    {"DottedModule", Calling("torch._utils.os", "system"), "names 'torch._utils.os.system'"},
    {"OtherOfUtils", Calling("torch._utils", "_import_dotted_name"), "names 'torch._utils._import_dotted_name'"},
    {"OtherOfCollections", Calling("collections", "defaultdict"), "names 'collections.defaultdict'"},
    {"LongName", Calling(Repeat("a", 100000), "system"), "..."},
    {"BinaryName", Calling("\x1b[2J\xff", "x"), "'\\x1b[2J\\xff.x'"},
    {"EmptyName", Calling("", ""), "names '.'"},
    {"CallString", WithValue(PickleString("os.system") + ")R"), "calls a string"},
    {"CallDict", WithValue("})R"), "calls a dictionary"},
    {"CallWithString", WithValue(PickleGlobal("collections", "OrderedDict") + PickleString("x") + "R"), "with a string"},
    {"CallStorage", WithValue(PickleGlobal("torch", "FloatStorage") + ")R"), "calls the class torch.FloatStorage"},
    {"CallDictWithPairs", WithValue(PickleGlobal("collections", "OrderedDict") + "]\x85R"), "called with nothing"},
    {"RebuildNothing", WithValue(PickleGlobal("torch._utils", "_rebuild_tensor_v2") + ")R"), "called with a storage"},
    {"RebuildStrings", WithValue(PickleGlobal("torch._utils", "_rebuild_tensor_v2") + "(" + Repeat(PickleString("x"), 6) + "tR"), "called with a storage"},
    {"RebuildMuch", WithValue(PickleGlobal("torch._utils", "_rebuild_tensor_v2") + "(" + Repeat("N", 100000) + "tR"), "with 100000 values"},
    {"ParameterOfNone", WithValue(PickleGlobal("torch._utils", "_rebuild_parameter") + "N\x85R"), "called with a tensor"},
    {"BuildTensor", WithValue(PickleTensor(Six("a")) + "}b"), "gives a tensor attributes"},
    {"BuildClass", WithValue(PickleGlobal("collections", "OrderedDict") + "}b"), "gives a class or function attributes"},
    {"BuildWithTuple", WithValue("})b"), "gives a dictionary attributes"},
};

const BadFile kOpcodes[] = {
    {"StackGlobal", WithOpcode(PickleString("os") + PickleString("system") + "\x93"), "STACK_GLOBAL (0x93)"},
    {"Inst", WithOpcode("(" + PickleString("x") + "ios\nsystem\n"), "INST (0x69)"},
    {"Obj", WithOpcode("(o"), "OBJ (0x6f)"},
    {"NewObj", WithOpcode(PickleGlobal("collections", "OrderedDict") + ")\x81"), "NEWOBJ (0x81)"},
    {"NewObjEx", WithOpcode(PickleGlobal("collections", "OrderedDict") + ")}\x92"), "NEWOBJ_EX (0x92)"},
    {"Extension", WithOpcode("\x82\x01"), "EXT1 (0x82)"},
    {"TextPersistentId", WithOpcode("Pfile\n"), "PERSID (0x50)"},
    {"Pop", WithOpcode("NN0"), "POP (0x30)"},
    {"Dup", WithOpcode("]2a"), "DUP (0x32)"},
    {"TextInt", WithOpcode("I1\n"), "INT (0x49)"},
    {"TextString", WithOpcode("S'x'\n"), "STRING (0x53)"},
    {"Long4", WithOpcode("\x8b\xff\xff\xff\x7f"), "LONG4 (0x8b)"},
    {"Bytes8", WithOpcode("\x8e" + test::LittleEndian(uint64_t{1} << 63, 8)), "BINBYTES8 (0x8e)"},
    {"ByteArray8", WithOpcode("\x96" + test::LittleEndian(uint64_t{1} << 63, 8)), "BYTEARRAY8 (0x96)"},
    {"Frame", WithOpcode("\x95" + test::LittleEndian(uint64_t{1} << 63, 8)), "FRAME (0x95)"},
    {"Unknown", WithOpcode("\xff"), "unknown (0xff)"},
    {"Protocol4", PytorchZip("\x80\x04N.", {}), "protocol 4"},
    {"BigLong", WithOpcode("\x8a\xff" + std::string(255, 'x')), "a number of 255 bytes"},
    {"LongStringLength", WithOpcode("X\xff\xff\xff\xff"), "cut short: 4294967295 bytes"},
    {"NameWithoutEnd", PytorchZip("\x80\x02" "cos", {}), "cut short in a name"},
    {"NoStop", PytorchZip("\x80\x02N", {}), "cut short"},
    {"Empty", PytorchZip("", {}), "cut short"},
    {"FarMemo", WithOpcode("Nr\xff\xff\xff\xff"), "more than 262144 values"},
    {"UnknownMemo", WithOpcode("h\x05"), "value 5, which it has not kept"},
    {"MemoOfNothing", WithOpcode(std::string("q\0", 2)), "takes 1 values from a stack of 0"},
    {"EmptyStack", WithOpcode("N\x87"), "takes 3 values from a stack of 1"},
    {"ThroughMark", WithOpcode("N(\x85"), "takes 1 values from a stack of 0"},
    {"NoMark", WithOpcode("]Ne"), "lacks a mark"},
    {"OddItems", WithOpcode("}(NNNu"), "puts 3 values into a dictionary"},
    {"AppendToDict", WithOpcode("}Na"), "puts 1 values into a dictionary"},
    {"ItemsOfTensor", WithOpcode(PickleTensor(Six("a")) + "NNs"), "puts 2 values into a tensor"},
    {"TwoValues", WithOpcode("NN"), "ends with 2 values"},
    {"OpenMark", WithOpcode("N("), "ends with 1 values"},
    {"NoValue", WithOpcode(""), "ends with 0 values"},
    {"ManyMarks", WithOpcode(Repeat("(", 300000)), "more than 262144 values"},
    {"ManyLists", WithOpcode(Repeat("]", 300000)), "more than 262144 values"},
    {"ManyCopies", WithOpcode(std::string("]q\0", 3) + Repeat(std::string_view("h\0", 2), 300000)), "more than 262144 values"},
    {"ManyOpcodes", WithOpcode("N" + Repeat(std::string_view("q\0", 2), 1 << 20)), "more than 1048576 opcodes"},
    {"Deep", WithOpcode(Repeat("]", 200000) + Repeat("a", 199999)), "holds a list"},
    {"DeepTuples", WithOpcode("N" + Repeat("\x85", 200000)), "holds a tuple"},
    {"HoldsItself", WithOpcode(std::string("]q\0h\0a", 6)), "holds a list"},
    {"DictHoldsItself", WithOpcode(std::string("}q\0", 3) + PickleString("model") + std::string("h\0s", 3)), "no tensors by name, only ['model']"},
    {"LongPickle", PytorchZip(std::string((16 << 20) + 1, 'N'), {}), "the limit is 16777216"},
    {"NoTensors", WithOpcode("}" + PickleString("iter") + "K\x05s"), "only ['iter']"},
};

const BadFile kTensors[] = {
    {"IdOfString", WithValue(PickleString("/etc/passwd") + "Q"), "that is no storage"},
    {"IdOfModule", WithValue("(" + PickleString("module") + Repeat(PickleString("x"), 4) + "tQ"), "that is no storage"},
    {"IdOfFunction", WithValue("(" + PickleString("storage") + PickleGlobal("collections", "OrderedDict") + PickleString("0") + PickleString("cpu") + "K\x06tQ"), "that is no storage"},
    {"EmptyId", WithValue(")Q"), "that is no storage"},
    {"LongKey", WithTensor([](PickledTensor& t) { t.storage = std::string(65, '0'); }), "key has 65 bytes"},
    {"NegativeStorage", WithTensor([](PickledTensor& t) { t.storage_values = -6; }), "has -6 values"},
    {"StorageTooLarge", WithTensor([](PickledTensor& t) { t.storage_values = 7; }), "of 7 values of 4 bytes has 24 bytes"},
    {"StorageOf2To62", WithTensor([](PickledTensor& t) { t.storage_values = int64_t{1} << 62; }), "has 4611686018427387904 values, must be 0.."},
    {"StorageOfOtherType", WithTensor([](PickledTensor& t) { t.storage_class = "HalfStorage"; }), "of 6 values of 2 bytes has 24 bytes"},
    {"OtherStorage", WithTensor([](PickledTensor& t) { t.storage = "1"; }), "storage '1' is not in the file"},
    {"StorageOutside", WithTensor([](PickledTensor& t) { t.storage = "../../../etc/passwd"; }), "is not in the file"},
    {"StorageIsPickle", WithTensor([](PickledTensor& t) { t.storage = "../data.pkl"; }), "is not in the file"},
    {"UnknownStorage", WithTensor([](PickledTensor& t) { t.storage_class = "UntypedStorage"; }), "names 'torch.UntypedStorage'"},
    {"Shifted", WithTensor([](PickledTensor& t) { t.offset = 1; }), "does not lie within"},
    {"OffsetBehind", WithTensor([](PickledTensor& t) { t.offset = 7; }), "begins at value 7"},
    {"OffsetBefore", WithTensor([](PickledTensor& t) { t.offset = -1; }), "begins at value -1"},
    {"OffsetOf2To63", WithTensor([](PickledTensor& t) { t.offset = INT64_MAX; }), "begins at value 9223372036854775807"},
    {"TooManyRows", WithTensor([](PickledTensor& t) { t.shape[0] = 3; }), "does not lie within"},
    {"NegativeSide", WithTensor([](PickledTensor& t) { t.shape[0] = -2; }), "has the shape -2x3"},
    {"SideOf2To62", WithTensor([](PickledTensor& t) { t.shape[0] = int64_t{1} << 62; }), "0..100000000 values"},
    {"ProductOverflows", WithTensor([](PickledTensor& t) { t.shape = {1 << 16, 1 << 16, 1 << 16, 1 << 16}; t.strides = {0, 0, 0, 0}; }), "0..100000000 values"},
    {"NegativeStride", WithTensor([](PickledTensor& t) { t.offset = 5; t.strides = {-3, -1}; }), "the stride -3"},
    {"StrideOf2To62", WithTensor([](PickledTensor& t) { t.strides[0] = int64_t{1} << 62; }), "the stride 4611686018427387904"},
    {"StrideZero", WithTensor([](PickledTensor& t) { t.shape = {10000, 10000}; t.strides = {0, 0}; }), "does not lie within"},
    {"LacksStride", WithTensor([](PickledTensor& t) { t.strides.pop_back(); }), "has 1 strides"},
    {"HundredAxes", WithTensor([](PickledTensor& t) { t.shape = t.strides = std::vector<int64_t>(100, 1); }), "has 100 axes"},
    {"SideIsString", WithValue(PickleGlobal("torch._utils", "_rebuild_tensor_v2") + "(" + PickleStorage(Six("a")) + PickleInt(0) + PickleString("x") + "\x85)tR"), "numbers"},
    {"NameTwice", WithValue(PickleStateDict({Six("a"), Six("a")})), "'a': is there twice"},
    {"DictTwice", WithValue(PickleDict({{"params", PickleStateDict({Six("a")})}, {"params", "}"}})), "key 'params' is there twice"},
    {"SharedTooOften", SharedTooOften(), "share storages so often"},
};

std::string Sound() { return WithValue(PickleStateDict({Six("a")})); }

// The sound file with bytes of its end record changed.
std::string WithEnd(size_t offset, uint64_t value, int bytes) {
  std::string file = Sound();
  return file.replace(file.size() - 22 + offset, bytes, test::LittleEndian(value, bytes));
}

// Both headers of data.pkl say `size`, at the place of its stored and its whole size.
std::string WithSizes(uint64_t size) {
  std::string file = Sound();
  for (const auto& [magic, place] : {std::pair("PK\3\4", 18), std::pair("PK\1\2", 20)}) {
    file.replace(file.find(magic) + place, 8,
                 test::LittleEndian(size, 4) + test::LittleEndian(size, 4));
  }
  return file;
}

// Each entry's bytes are the next one's header and bytes.
std::string NestedZip() {
  std::string directory, bytes(10000, 'x');
  std::vector<std::pair<std::string, size_t>> headers;
  for (int i = 0; i < 20; ++i) {
    const std::string whole = test::Zip({{.name = std::string(1, static_cast<char>('a' + i)), .bytes = bytes}});
    const size_t local = whole.find("PK\1\2");
    headers.emplace_back(whole.substr(local, 47), local);
    bytes = whole.substr(0, local);
  }
  for (const auto& [header, length] : headers) {
    directory += header.substr(0, 42) + test::LittleEndian(bytes.size() - length, 4) + header.substr(46);
  }
  return bytes + directory + "PK\5\6" + test::LittleEndian(0, 4) + test::LittleEndian(20, 2) +
         test::LittleEndian(20, 2) + test::LittleEndian(directory.size(), 4) +
         test::LittleEndian(bytes.size(), 4) + test::LittleEndian(0, 2);
}

const std::string kGood = Pickle(PickleStateDict({Six("a")}));

const BadFile kZips[] = {
    {"Compressed", PytorchZip(kGood, {{.name = "0", .bytes = kSix, .method = 8}}), "'net/data/0' is compressed"},
    {"CompressedPickle", test::Zip({{.name = "net/data.pkl", .bytes = kGood, .method = 8}}), "'net/data.pkl' is compressed"},
    {"UnknownMethod", PytorchZip(kGood, {{.name = "0", .bytes = kSix, .method = 14}}), "is compressed"},
    {"Encrypted", PytorchZip(kGood, {{.name = "0", .bytes = kSix, .flags = 1}}), "'net/data/0' is encrypted"},
    {"EntryTwice", PytorchZip(kGood, {{.name = "0", .bytes = kSix}, {.name = "0", .bytes = kSix}}), "File already exists"},
    {"WrongChecksum", test::Zip({{.name = "net/data.pkl", .bytes = kGood, .wrong_crc = 5}}), "CRC"},
    {"NoPickle", test::Zip({{.name = "net/data/0", .bytes = kSix}}), "without 'data.pkl'"},
    {"DeepPickle", test::Zip({{.name = "a/b/data.pkl", .bytes = kGood}}), "without 'data.pkl'"},
    {"TwoPickles", test::Zip({{.name = "a/data.pkl", .bytes = kGood}, {.name = "b/data.pkl", .bytes = kGood}}), "several entries 'data.pkl'"},
    {"OtherArchive", test::Zip({{.name = "net.pth", .bytes = kSix, .method = 8}}), "it holds 'net.pth'; unpack it"},
    {"TorchScript", test::Zip({{.name = "net/code/__torch__.py", .bytes = kSix, .method = 8}, {.name = "net/data.pkl", .bytes = kGood}}), "is a TorchScript program, which is not executed"},
    {"NoEntries", "PK\3\4" + test::Zip({}), "zip file"},
    {"BigEndian", test::Zip({{.name = "n/data.pkl", .bytes = kGood}, {.name = "n/byteorder", .bytes = "big"}}), "big-endian"},
    {"CutShort", Sound().substr(0, 100), "no end of a directory"},
    {"CutAtTheEnd", Sound().substr(0, Sound().size() - 4), "no sound zip file"},
    {"ManyEnds", Sound() + Repeat(std::string("PK\5\6") + std::string(18, '\0'), 100), "too many ends"},
    {"EntriesOfTheEnd", WithEnd(8, 0xfffe, 2), "no sound zip file"},
    {"DirectoryBehind", WithEnd(16, 0xfffffff0, 4), "no sound zip file"},
    {"DirectoryTooLong", WithEnd(12, 0xfffffff0, 4), "no sound zip file"},
    {"ManyEntries", test::Zip(std::vector<test::ZipEntry>(65537)), "more than 65536 entries"},
    {"LargerThanTheFile", WithSizes(0x7fffffff), "zip file"},
    {"OverTheNextEntry", WithSizes(kGood.size() + 40), "CRC"},
    {"Nested", NestedZip(), "entries overlap"},
    {"Zip64Size", WithSizes(0xffffffff), "zip file"},
};

const BadFile kStacks[] = {
    {"RawPickle", Pickle(PickleGlobal("os", "system") + PickleString("id") + "\x85R"), "not as torch.save writes it"},
    {"RawProtocol4", "\x80\x04N.", "not as torch.save writes it"},
    {"StackedCall", PytorchStacked(Pickle(PickleGlobal("os", "system") + PickleString("id") + "\x85R"), {}), "names 'os.system'"},
    {"StackedCount", PytorchStacked(kGood, {{"0", int64_t{1} << 62, kSix}}), "has 4611686018427387904 values, must have 6"},
    {"StackedNegativeCount", PytorchStacked(kGood, {{"0", -1, kSix}}), "has -1 values"},
    {"StackedCutShort", PytorchStacked(kGood, {{"0", 6, kSix.substr(1)}}), "is cut short in storage '0'"},
    {"StackedCutInCount", PytorchStacked(kGood, {{"0", 6, kSix}}).substr(0, PytorchStacked(kGood, {{"0", 6, kSix}}).size() - 30), "is cut short in storage '0'"},
    {"StackedTwice", PytorchStacked(kGood, {{"0", 6, kSix}, {"0", 6, kSix}}), "'0' is there twice"},
    {"StackedMissing", PytorchStacked(kGood, {}), "storage '0' is not in the file"},
    {"StackedUnknown", PytorchStacked(kGood, {{"1", 6, kSix}}), "a storage '1' that no tensor is in"},
    {"StackedOtherVersion", PytorchStacked(kGood, {}).replace(15 + 3, 1, "\1"), "must have 1001"},
    {"StackedLongPickle", PytorchStacked("\x80\x02X" + test::LittleEndian(1 << 24, 4) + std::string(1 << 24, 'x') + ".", {}), "longer than 16777216 bytes, the limit"},
    {"StackedNoPickle", PytorchStacked("", {}), "cut short"},
};
// clang-format on

const auto kNameOfBadFile = [](const auto& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Calls, BadPytorchTest, ::testing::ValuesIn(kCalls), kNameOfBadFile);
INSTANTIATE_TEST_SUITE_P(Opcodes, BadPytorchTest, ::testing::ValuesIn(kOpcodes), kNameOfBadFile);
INSTANTIATE_TEST_SUITE_P(Tensors, BadPytorchTest, ::testing::ValuesIn(kTensors), kNameOfBadFile);
INSTANTIATE_TEST_SUITE_P(Zips, BadPytorchTest, ::testing::ValuesIn(kZips), kNameOfBadFile);
INSTANTIATE_TEST_SUITE_P(Stacks, BadPytorchTest, ::testing::ValuesIn(kStacks), kNameOfBadFile);

}  // namespace
}  // namespace upscaled
