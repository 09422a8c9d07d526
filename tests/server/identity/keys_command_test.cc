#include "server/identity/keys_command.h"

#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "server/identity/key_file.h"

namespace upscaled::server {
namespace {

using ::testing::HasSubstr;

struct CommandResult {
  int exit_code;
  std::string out, err;
};

CommandResult RunKeys(std::vector<const char*> arguments, const std::string& input = "") {
  arguments.insert(arguments.begin(), "keys");
  std::istringstream in(input);
  std::ostringstream out, err;
  const int code =
      RunKeysCommand(static_cast<int>(arguments.size()), arguments.data(), in, out, err);
  return {code, out.str(), err.str()};
}

TEST(KeysCommandTest, MakesAKeyAndItsEntry) {
  const CommandResult made =
      RunKeys({"new", "--name", "shop-1", "--tenant", "shop", "--role", "read"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const size_t end = made.out.find('\n');
  const std::string key = made.out.substr(0, end);
  const auto parsed = ParseKeyFile("{\"keys\": [" + made.out.substr(end) + "]}", "keys.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const KeyTable* const table = &parsed->keys;
  ASSERT_TRUE(table->contains(*HashApiKey(key)));
  const Principal& principal = table->begin()->second.principal;
  EXPECT_EQ(principal.name, "shop-1");
  EXPECT_EQ(principal.tenant, "shop");
  EXPECT_FALSE(principal.roles.Has(Role::kUpscale));
  const CommandResult hash = RunKeys({"hash"}, key + "\n");
  EXPECT_EQ(hash.out, FormatKeyHash(*HashApiKey(key)) + "\n");
}

TEST(KeysCommandTest, ShowsNoKeyThatIsGivenInTheWrongPlace) {
  const std::string key = *NewApiKey();
  for (const auto& arguments : {std::vector<const char*>{"hash", key.c_str()},
                                std::vector<const char*>{"new", "--tenant", key.c_str()}}) {
    const CommandResult refused = RunKeys(arguments);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_FALSE(refused.err.empty());
    EXPECT_EQ(refused.err.find(key), std::string::npos) << refused.err;
  }
}

TEST(KeysCommandTest, RefusesWhatTheServerWould) {
  EXPECT_EQ(RunKeys({"new"}).exit_code, 0);
  EXPECT_EQ(RunKeys({"--help"}).exit_code, 0);
  EXPECT_THAT(RunKeys({"new", "--name", "a b"}).err, HasSubstr("\"a b\"; it must be"));
  EXPECT_THAT(RunKeys({"new", "--role", "root"}).err, HasSubstr("root"));
  EXPECT_EQ(RunKeys({}).exit_code, 2);
  const CommandResult password = RunKeys({"hash"}, "hunter2\n");
  EXPECT_EQ(password.exit_code, 2);
  EXPECT_THAT(password.err, testing::Not(HasSubstr("hunter2")));
}

}  // namespace
}  // namespace upscaled::server
