// A shared library, but not a plugin.
extern "C" int NotThePluginsEntry() { return 0; }
