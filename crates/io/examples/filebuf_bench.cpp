// The C and C++ side of filebuf_bench: the same chunks to the same target by a basic_filebuf or by stdio. Built and called
// by filebuf_bench.rs, which explains the arguments; prints seconds and the number of write calls.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

static void fail(const char *what) {
    std::perror(what);
    std::exit(1);
}

// All write calls of this process so far, as the kernel counts them: whatever library makes them.
static unsigned long write_calls() {
    std::FILE *io = std::fopen("/proc/self/io", "r");
    char line[64];
    unsigned long calls = 0;
    if (!io)
        fail("/proc/self/io");
    while (std::fgets(line, sizeof line, io))
        std::sscanf(line, "syscw: %lu", &calls);
    std::fclose(io);
    return calls;
}

int main(int argc, char **argv) {
    if (argc != 6)
        return 2;
    const std::string how = argv[1], target = argv[2];
    const std::size_t capacity = std::strtoul(argv[3], nullptr, 10), count = std::strtoul(argv[4], nullptr, 10);
    std::vector<std::size_t> sizes;
    for (char *size = std::strtok(argv[5], ","); size; size = std::strtok(nullptr, ","))
        sizes.push_back(std::strtoul(size, nullptr, 10));
    const std::vector<char> bytes(*std::max_element(sizes.begin(), sizes.end()), 'x');

    const bool sync = target.compare(0, 5, "sync:") == 0;
    const char *path = target.c_str() + (sync ? 5 : 0);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | (sync ? O_SYNC : 0), 0666);
    if (fd < 0)
        fail(path);

    std::vector<char> memory(capacity + 1);
    std::FILE *stdio = nullptr;
    std::filebuf stream;
    if (how == "stdio") {
        stdio = fdopen(fd, "w");
        if (!stdio || std::setvbuf(stdio, memory.data(), capacity ? _IOFBF : _IONBF, capacity))
            fail("setvbuf");
    } else {
        // The flags belong to the open description: have another one opened, and put ours in its place. Its number is
        // the lowest free one.
        const int before = dup(fd);
        close(before);
        stream.pubsetbuf(capacity ? memory.data() : nullptr, static_cast<std::streamsize>(capacity));
        if (!stream.open("/dev/null", std::ios::out | std::ios::binary))
            fail("filebuf::open");
        if (dup2(fd, before) < 0)
            fail("dup2");
    }

    const unsigned long calls = write_calls();
    const auto start = std::chrono::steady_clock::now();
    bool good = true;
    std::size_t next = 0;
    if (stdio) {
        for (std::size_t i = 0; i < count; i++) {
            const std::size_t size = sizes[next];
            next = next + 1 == sizes.size() ? 0 : next + 1;
            good &= std::fwrite(bytes.data(), 1, size, stdio) == size;
        }
        good &= std::fflush(stdio) == 0;
    } else {
        for (std::size_t i = 0; i < count; i++) {
            const std::size_t size = sizes[next];
            next = next + 1 == sizes.size() ? 0 : next + 1;
            good &= stream.sputn(bytes.data(), static_cast<std::streamsize>(size)) == static_cast<std::streamsize>(size);
        }
        good &= stream.pubsync() == 0;
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const unsigned long made = write_calls() - calls;
    if (!good)
        fail("write");
    std::printf("%.9f %lu\n", seconds.count(), made);
    return 0;
}
