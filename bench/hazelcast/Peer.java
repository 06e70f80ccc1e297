import com.hazelcast.client.HazelcastClient;
import com.hazelcast.client.config.ClientConfig;
import com.hazelcast.config.Config;
import com.hazelcast.config.JoinConfig;
import com.hazelcast.core.Hazelcast;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.map.IMap;
import com.hazelcast.map.LocalMapStats;
import com.hazelcast.partition.MigrationListener;
import com.hazelcast.partition.MigrationState;
import com.hazelcast.partition.ReplicaMigrationEvent;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * Hazelcast for the bench: a member, or a client that loads a cluster.
 *
 * <pre>
 *   Peer member PORT FOUNDERS BACKUPS    commands on standard input: held, safe, leave
 *   Peer fill FOUNDERS KEYS BYTES
 *   Peer load FOUNDERS KEYS BYTES set|get THREADS SECONDS
 *   Peer steady FOUNDERS KEYS BYTES RATE  commands: mark NAME; the end of the input ends it
 * </pre>
 *
 * FOUNDERS are ports of the loopback, with commas. Every answer is one line on standard output, behind the seconds of the
 * monotonic clock.
 */
public final class Peer {
    private static final String MAP = "users";
    private static final int STEADY_THREADS = 64;

    public static void main(String[] a) throws Exception {
        switch (a[0]) {
            case "member" -> member(Integer.parseInt(a[1]), a[2], Integer.parseInt(a[3]));
            case "fill" -> fill(client(a[1]), Integer.parseInt(a[2]), Integer.parseInt(a[3]));
            case "load" -> load(client(a[1]), Integer.parseInt(a[2]), Integer.parseInt(a[3]),
                    a[4].equals("set"), Integer.parseInt(a[5]), Double.parseDouble(a[6]));
            case "steady" -> steady(client(a[1]), Integer.parseInt(a[2]), Integer.parseInt(a[3]),
                    Integer.parseInt(a[4]));
            default -> throw new IllegalArgumentException(a[0]);
        }
        System.exit(0);
    }

    private static synchronized void say(String line) {
        System.out.println(System.nanoTime() / 1e9 + " " + line);
        System.out.flush();
    }

    private static BufferedReader commands() {
        return new BufferedReader(new InputStreamReader(System.in));
    }

    // A member ------------------------------------------------------------------------------------

    private static void member(int port, String founders, int backups) throws Exception {
        Config config = new Config();
        config.setClusterName("bench");
        config.setProperty("hazelcast.phone.home.enabled", "false");
        config.setProperty("hazelcast.logging.type", "none");
        config.setProperty("hazelcast.socket.bind.any", "false");
        config.setProperty("hazelcast.wait.seconds.before.join", "0");
        config.getNetworkConfig().setPort(port).setPortAutoIncrement(false)
                .setPublicAddress("127.0.0.1:" + port);
        config.getNetworkConfig().getInterfaces().setEnabled(true).addInterface("127.0.0.1");
        JoinConfig join = config.getNetworkConfig().getJoin();
        join.getAutoDetectionConfig().setEnabled(false);
        join.getMulticastConfig().setEnabled(false);
        join.getTcpIpConfig().setEnabled(true);
        for (String founder : founders.split(",")) join.getTcpIpConfig().addMember("127.0.0.1:" + founder);
        config.getMapConfig(MAP).setBackupCount(backups);
        HazelcastInstance hazelcast = Hazelcast.newHazelcastInstance(config);
        hazelcast.getPartitionService().addMigrationListener(new MigrationListener() {
            public void migrationStarted(MigrationState state) { say("moving"); }
            public void migrationFinished(MigrationState state) { say("moved"); }
            public void replicaMigrationCompleted(ReplicaMigrationEvent event) { }
            public void replicaMigrationFailed(ReplicaMigrationEvent event) { say("failed"); }
        });
        say("ready " + hazelcast.getCluster().getMembers().size());
        BufferedReader input = commands();
        for (String line; (line = input.readLine()) != null; ) {
            switch (line) {
                case "held" -> {
                    LocalMapStats stats = hazelcast.getMap(MAP).getLocalMapStats();
                    say("held " + (stats.getOwnedEntryCount() + stats.getBackupEntryCount()));
                }
                case "safe" -> say("safe " + hazelcast.getPartitionService().isClusterSafe());
                case "leave" -> { hazelcast.shutdown(); say("left"); System.exit(0); }
                default -> throw new IllegalArgumentException(line);
            }
        }
        Runtime.getRuntime().halt(0); // who started it has gone
    }

    // A client ------------------------------------------------------------------------------------

    private static IMap<String, byte[]> client(String founders) {
        ClientConfig config = new ClientConfig();
        config.setClusterName("bench");
        config.setProperty("hazelcast.logging.type", "none");
        for (String founder : founders.split(",")) config.getNetworkConfig().addAddress("127.0.0.1:" + founder);
        return HazelcastClient.newHazelcastClient(config).getMap(MAP);
    }

    private static String key(int number) { return String.format("users:%08d", number); }

    private static byte[] value(int bytes, long seed) {
        byte[] value = new byte[bytes];
        new SplittableRandom(seed).nextBytes(value);
        return value;
    }

    private static void fill(IMap<String, byte[]> map, int keys, int bytes) throws Exception {
        AtomicLong next = new AtomicLong();
        together(20, id -> {
            byte[] value = value(bytes, id);
            for (long n; (n = next.getAndIncrement()) < keys; ) map.set(key((int) n), value);
        });
        say("filled " + map.size());
    }

    private interface Work { void run(int id); }

    private static void together(int threads, Work work) throws InterruptedException {
        CountDownLatch done = new CountDownLatch(threads);
        for (int t = 0; t < threads; t++) {
            int id = t;
            new Thread(() -> { try { work.run(id); } finally { done.countDown(); } }).start();
        }
        done.await();
    }

    /** As many operations as may be: rate, and the 99th percentile in milliseconds. */
    private static void load(IMap<String, byte[]> map, int keys, int bytes, boolean set, int threads,
            double seconds) throws Exception {
        long[][] times = new long[threads][];
        long end = System.nanoTime() + (long) (seconds * 1e9);
        together(threads, id -> {
            SplittableRandom random = new SplittableRandom(id + System.nanoTime());
            byte[] value = value(bytes, id);
            long[] mine = new long[1 << 16];
            int count = 0;
            for (long begun; (begun = System.nanoTime()) < end; ) {
                String key = key(random.nextInt(keys));
                if (set) map.set(key, value); else map.get(key);
                if (count == mine.length) mine = Arrays.copyOf(mine, 2 * count);
                mine[count++] = System.nanoTime() - begun;
            }
            times[id] = Arrays.copyOf(mine, count);
        });
        long[] all = Arrays.stream(times).flatMapToLong(Arrays::stream).sorted().toArray();
        say(String.format("load %.0f %.3f", all.length / seconds, percentile(all, 0.99)));
    }

    private static double percentile(long[] sorted, double share) {
        return sorted.length == 0 ? 0 : sorted[Math.min(sorted.length - 1, (int) (sorted.length * share))] / 1e6;
    }

    /** An open loop, half of it writes; of what was sent since the last mark: errors, p99, longest. */
    private static void steady(IMap<String, byte[]> map, int keys, int bytes, int rate) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(STEADY_THREADS);
        Seen[] seen = {new Seen()};
        Thread source = new Thread(() -> {
            SplittableRandom random = new SplittableRandom(1);
            byte[] value = value(bytes, 1);
            long due = System.nanoTime();
            while (!Thread.currentThread().isInterrupted()) {
                long wait = due - System.nanoTime();
                if (wait > 0) LockSupport.parkNanos(wait);
                due += 1_000_000_000L / rate;
                String key = key(random.nextInt(keys));
                boolean set = random.nextBoolean();
                Seen mine = seen[0];
                pool.execute(() -> mine.time(() -> { if (set) map.set(key, value); else map.get(key); }));
            }
        });
        source.setDaemon(true);
        source.start();
        say("steady");
        BufferedReader input = commands();
        while (input.readLine() != null) {
            Seen before = seen[0];
            seen[0] = new Seen();
            say(before.told());
        }
        source.interrupt();
        pool.shutdownNow();
        pool.awaitTermination(10, TimeUnit.SECONDS);
    }

    /** What the operations of a time met. */
    private static final class Seen {
        private long[] times = new long[1 << 12];
        private int count;
        private int errors;

        void time(Runnable operation) {
            long begun = System.nanoTime();
            boolean failed = false;
            try { operation.run(); } catch (RuntimeException error) { failed = true; }
            add(System.nanoTime() - begun, failed);
        }

        private synchronized void add(long nanos, boolean failed) {
            if (count == times.length) times = Arrays.copyOf(times, 2 * count);
            times[count++] = nanos;
            if (failed) errors++;
        }

        synchronized String told() {
            long[] sorted = Arrays.copyOf(times, count);
            Arrays.sort(sorted);
            return String.format("seen %d %d %.3f %.3f", count, errors, percentile(sorted, 0.99), percentile(sorted, 1));
        }
    }
}
