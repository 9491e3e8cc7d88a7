package kedge.compare;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

import org.apache.spark.unsafe.types.UTF8String;

/**
 * The messages of a comparison, and the number of messages that its feeder has released. A JVM has one object per
 * folder.
 *
 * The folder has two files. `texts` has all texts in UTF-8, one after the other. `ends` has the end of each text, as a
 * little-endian long. Message k has text number k modulo the number of texts. The feeder counts released messages in a
 * file of eight bytes. After each change it writes a byte into a named pipe, which wakes waiting readers, as in Kedge's
 * own source.
 */
final class Messages {
    private static final VarHandle LONGS =
            MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(100); // longest sleep between two looks
    private static final int WAKES_MAX = 65_536; // most bytes of the pipe in one read
    private static final Map<String, Messages> ALL = new ConcurrentHashMap<>();

    private final MappedByteBuffer texts;
    private final MappedByteBuffer ends;
    private final MappedByteBuffer counter;
    private final int held;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition released = lock.newCondition();

    /** Returns the messages of a folder. The first call begins to read the pipe. */
    static Messages of(String folder, String counter, String wake) {
        return ALL.computeIfAbsent(folder, one -> new Messages(Path.of(one), Path.of(counter), wake));
    }

    private Messages(Path folder, Path counter, String wake) {
        try {
            texts = mapped(folder.resolve("texts"));
            ends = mapped(folder.resolve("ends"));
            this.counter = mapped(counter);
            held = ends.capacity() / Long.BYTES;
            // for writing too: opening a pipe for reading only blocks until a writer opens it
            RandomAccessFile pipe = new RandomAccessFile(wake, "rw");
            Thread waking = new Thread(() -> wake(pipe), "released");
            waking.setDaemon(true);
            waking.start();
        } catch (IOException error) {
            throw new IllegalStateException("reading the messages of " + folder + " failed", error);
        }
    }

    /** Returns the number of released messages. */
    long released() {
        return (long) LONGS.getAcquire((ByteBuffer) counter, 0);
    }

    /** Waits at most `nanos` until a message is released. Returns true if it is. */
    boolean await(long number, long nanos) throws InterruptedException {
        if (released() > number) {
            return true;
        }
        long until = System.nanoTime() + nanos;
        lock.lockInterruptibly();
        try {
            while (released() <= number) {
                long left = until - System.nanoTime();
                if (left <= 0) {
                    return false;
                }
                released.awaitNanos(Math.min(left, LOOK_NANOS));
            }
            return true;
        } finally {
            lock.unlock();
        }
    }

    UTF8String text(long number) {
        int at = (int) (number % held);
        int begins = at == 0 ? 0 : (int) (long) LONGS.get((ByteBuffer) ends, (at - 1) * Long.BYTES);
        byte[] text = new byte[(int) (long) LONGS.get((ByteBuffer) ends, at * Long.BYTES) - begins];
        texts.get(begins, text);
        return UTF8String.fromBytes(text);
    }

    private void wake(RandomAccessFile pipe) {
        byte[] wakes = new byte[WAKES_MAX];
        try {
            while (pipe.read(wakes) >= 0) {
                lock.lock();
                try {
                    released.signalAll();
                } finally {
                    lock.unlock();
                }
            }
        } catch (IOException error) {
            // waiting readers still read the counter every LOOK_NANOS
        }
    }

    private static MappedByteBuffer mapped(Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
            return channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
        }
    }
}
