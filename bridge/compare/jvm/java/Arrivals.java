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
 * A sink that records the arrival of each row: its `number` and System.nanoTime(), as two little-endian longs.
 *
 * Each JVM writes its own file in the folder, through mapped memory, so the rows survive the JVM's death. The file is
 * longer than its content, which ends at the first time of 0. On Linux the clock is CLOCK_MONOTONIC, as in Python.
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

    /** The file. It stays open in this JVM, while Spark opens and closes writers for each epoch or batch. */
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
                throw new IllegalStateException("more rows arrived than the file can hold");
            }
            long begins = (long) chunks++ * CHUNK_BYTES;
            // Zeros allocate disk space first: a write to a mapped page without space kills the JVM.
            ByteBuffer zeros = ByteBuffer.allocate(CHUNK_BYTES);
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
