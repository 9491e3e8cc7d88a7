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
 * The messages of a comparison, and how many of them its feeder has released by now. One of each folder in a JVM.
 *
 * The folder has `texts`, one after the other in UTF-8, and `ends`, where each of them ends, a little-endian long each.
 * Message k is the (k modulo as many as there are)-th. The feeder counts in a file of eight bytes, and writes a byte
 * into a named pipe whenever it has counted: who waits sleeps until then, as Kedge's own source does.
 */
final class Messages {
    private static final VarHandle LONGS =
            MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(100); // between two looks, whoever wakes us
    private static final int WAKES_MAX = 65_536; // bytes of the pipe that are read at once
    private static final Map<String, Messages> ALL = new ConcurrentHashMap<>();

    private final MappedByteBuffer texts;
    private final MappedByteBuffer ends;
    private final MappedByteBuffer counter;
    private final int held;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition released = lock.newCondition();

    /** Those of a folder; the first who asks begins to listen to the pipe. */
    static Messages of(String folder, String counter, String wake) {
        return ALL.computeIfAbsent(folder, one -> new Messages(Path.of(one), Path.of(counter), wake));
    }

    private Messages(Path folder, Path counter, String wake) {
        try {
            texts = mapped(folder.resolve("texts"));
            ends = mapped(folder.resolve("ends"));
            this.counter = mapped(counter);
            held = ends.capacity() / Long.BYTES;
            // for writing too: a pipe that is opened for reading alone waits for who writes
            RandomAccessFile pipe = new RandomAccessFile(wake, "rw");
            Thread waking = new Thread(() -> wake(pipe), "released");
            waking.setDaemon(true);
            waking.start();
        } catch (IOException error) {
            throw new IllegalStateException("the messages of " + folder + " can't be read", error);
        }
    }

    /** How many are. */
    long released() {
        return (long) LONGS.getAcquire((ByteBuffer) counter, 0);
    }

    /** Whether a message is; waits for it for so long at most. */
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
            // who waits looks for itself then
        }
    }

    private static MappedByteBuffer mapped(Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
            return channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
        }
    }
}
