package kedge.compare;

import java.io.Serializable;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.ContinuousPartitionReader;
import org.apache.spark.sql.connector.read.streaming.ContinuousPartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.ContinuousStream;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A log as a streaming source: the `number` and `text` of each message, in one partition, as soon as the feeder
 * releases it.
 *
 * Supports micro-batches, continuous processing and real-time mode. An offset is the number of the next message.
 * Options: `folder`, `counter` and `wake`, the arguments of Messages.of.
 */
public final class LogSource implements TableProvider {
    private static final StructType SCHEMA =
            new StructType().add("number", DataTypes.LongType, false).add("text", DataTypes.StringType, false);

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return SCHEMA;
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return new Log();
    }

    private static final class Log implements SupportsRead {
        @Override
        public String name() {
            return "log";
        }

        @Override
        @SuppressWarnings("deprecation") // the name of its replacement differs between versions of Spark 4
        public StructType schema() {
            return SCHEMA;
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Set.of(TableCapability.MICRO_BATCH_READ, TableCapability.CONTINUOUS_READ);
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            Place place = new Place(options.get("folder"), options.get("counter"), options.get("wake"));
            return () -> new Scan() {
                @Override
                public StructType readSchema() {
                    return SCHEMA;
                }

                @Override
                public MicroBatchStream toMicroBatchStream(String checkpoint) {
                    return new Batches(place);
                }

                @Override
                public ContinuousStream toContinuousStream(String checkpoint) {
                    return new Endless(place);
                }
            };
        }
    }

    private record Place(String folder, String counter, String wake) implements Serializable {
        Messages messages() {
            return Messages.of(folder, counter, wake);
        }
    }

    /** An offset: the number of the next message. */
    private static final class Next extends Offset implements PartitionOffset {
        final long number;

        Next(long number) {
            this.number = number;
        }

        @Override
        public String json() {
            return Long.toString(number);
        }
    }

    private record Slice(Place place, long first, long end) implements InputPartition {}

    private abstract static class Stream {
        final Place place;

        Stream(Place place) {
            this.place = place;
        }

        public Offset initialOffset() {
            return new Next(0);
        }

        public Offset deserializeOffset(String json) {
            return new Next(Long.parseLong(json.trim()));
        }

        /** Returns one partition that begins at the offset and has no end. */
        public InputPartition[] planInputPartitions(Offset start) {
            return new InputPartition[] {new Slice(place, ((Next) start).number, Long.MAX_VALUE)};
        }

        public Offset mergeOffsets(PartitionOffset[] offsets) {
            return (Next) offsets[0];
        }

        public void commit(Offset end) {}

        public void stop() {}
    }

    private static final class Batches extends Stream implements MicroBatchStream, SupportsRealTimeMode {
        Batches(Place place) {
            super(place);
        }

        @Override
        public Offset latestOffset() {
            return new Next(place.messages().released());
        }

        @Override
        public InputPartition[] planInputPartitions(Offset start, Offset end) {
            return new InputPartition[] {new Slice(place, ((Next) start).number, ((Next) end).number)};
        }

        @Override
        public PartitionReaderFactory createReaderFactory() {
            return new Readers();
        }
    }

    private static final class Endless extends Stream implements ContinuousStream {
        Endless(Place place) {
            super(place);
        }

        @Override
        public ContinuousPartitionReaderFactory createContinuousReaderFactory() {
            return new Readers();
        }
    }

    private static final class Readers implements ContinuousPartitionReaderFactory {
        @Override
        public ContinuousPartitionReader<InternalRow> createReader(InputPartition partition) {
            return new Reader((Slice) partition);
        }
    }

    private static final class Reader
            implements ContinuousPartitionReader<InternalRow>, SupportsRealTimeRead<InternalRow> {
        private static final long FOREVER = TimeUnit.DAYS.toNanos(1);
        private final Messages messages;
        private final long end;
        private long next;

        Reader(Slice slice) {
            messages = slice.place().messages();
            next = slice.first();
            end = slice.end();
        }

        /** Waits for the next message. Returns false at the end of the slice, or if the thread is interrupted. */
        @Override
        public boolean next() {
            return next < end && took(FOREVER);
        }

        @Override
        public RecordStatus nextWithTimeout(Long startMillis, Long timeoutMillis) {
            return RecordStatus.newStatusWithoutArrivalTime(took(TimeUnit.MILLISECONDS.toNanos(timeoutMillis)));
        }

        private boolean took(long nanos) {
            try {
                boolean there = messages.await(next, nanos);
                next += there ? 1 : 0;
                return there;
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
                return false;
            }
        }

        @Override
        public InternalRow get() {
            return new GenericInternalRow(new Object[] {next - 1, messages.text(next - 1)});
        }

        @Override
        public PartitionOffset getOffset() {
            return new Next(next);
        }

        @Override
        public void close() {}
    }
}
