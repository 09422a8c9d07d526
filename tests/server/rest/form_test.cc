#include "server/rest/form.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ParseQueryTest, DecodesNamesAndValues) {
  const auto fields = ParseQuery("scale=2&download=a%20b%26c+d.png&tta&model=&&x=1=2");
  ASSERT_TRUE(fields.ok()) << fields.status();
  EXPECT_THAT(*fields, ElementsAre(FormField{"scale", "2"}, FormField{"download", "a b&c d.png"},
                                   FormField{"tta", std::nullopt}, FormField{"model", ""},
                                   FormField{"x", "1=2"}));
  EXPECT_TRUE(ParseQuery("")->empty());
}

TEST(ParseQueryTest, RefusesBrokenEncodingAndManyFields) {
  for (const char* query : {"a=%", "a=%1", "a=%zz", "%g0=1"}) {
    const absl::Status status = ParseQuery(query).status();
    EXPECT_EQ(ReasonOf(status), ErrorReason::kInvalidOption) << query;
  }
  std::string many;
  for (size_t i = 0; i < kMaxFormFields; ++i) many += "a=1&";
  EXPECT_TRUE(ParseQuery(many).ok());
  EXPECT_THAT(std::string(ParseQuery(many + "a=1").status().message()), HasSubstr("64 fields"));
}

}  // namespace
}  // namespace upscaled::server
