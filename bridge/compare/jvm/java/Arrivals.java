package kedge.compare;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.spark.sql.ForeachWriter;
import org.apache.spark.sql.Row;

/**
 * A sink that writes down when each row has come: its `number` and System.nanoTime(), two little-endian longs each.
 *
 * Into a file of this JVM's own in a folder, through memory, so that it is there whatever becomes of the JVM. The file
 * is longer than what is in it: a time of 0 is its end. On Linux that clock is CLOCK_MONOTONIC, as Python's is.
 */
public final class Arrivals extends ForeachWriter<Row> {
    private static final long serialVersionUID = 1L;
    private final String folder;
    private transient Log log;

    public Arrivals(String folder) {
        this.folder = folder;
    }

    @Override
    public boolean open(long partition, long epoch) {
        log = Log.of(folder);
        return true;
    }

    @Override
    public void process(Row row) {
        long now = System.nanoTime();
        log.add(row.getLong(0), now);
    }

    @Override
    public void close(Throwable error) {}

    /** The file. Writers come and go with epochs and batches, and this stays. */
    private static final class Log {
        private static final int CHUNK_BYTES = 1 << 20;
        private static final int CHUNKS_MAX = 4_096; // 268 million rows
        private static final Map<String, Log> ALL = new ConcurrentHashMap<>();
        private final FileChannel file;
        private int chunks;
        private MappedByteBuffer chunk;

        static Log of(String folder) {
            return ALL.computeIfAbsent(folder, Log::new);
        }

        private Log(String folder) {
            Path path = Path.of(folder, "arrivals-" + ProcessHandle.current().pid());
            try {
                file = FileChannel.open(
                        path, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
                nextChunk();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        synchronized void add(long number, long at) {
            if (!chunk.hasRemaining()) {
                nextChunk();
            }
            chunk.putLong(number).putLong(at);
        }

        private void nextChunk() {
            if (chunks == CHUNKS_MAX) {
                throw new IllegalStateException("more rows have come than there can be");
            }
            long begins = (long) chunks++ * CHUNK_BYTES;
            ByteBuffer zeros = ByteBuffer.allocate(CHUNK_BYTES); // its room: a page that finds none later kills
            try {
                while (zeros.hasRemaining()) {
                    file.write(zeros, begins + zeros.position());
                }
                chunk = file.map(FileChannel.MapMode.READ_WRITE, begins, CHUNK_BYTES);
                chunk.order(ByteOrder.LITTLE_ENDIAN);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }
}
