"""An event sink of type kafka against two real servers of Kafka, over TLS and with a password: every event is stored, those of one key
in order, through a kill of the leader of a partition, of the agent, and of the server that controls the cluster. Usage: kafka.py
FOLDER_OF_JARS; SONGLINE_BIN is the program. Kafka's own tools create the topic and read it."""

import json
import os
import subprocess
import sys
import tempfile

from agents import Agent, end, free_port, until

JARS = sys.argv[1]
JAVA = ["java", "-Xmx256m", "-cp", f"{JARS}/*"]
POOLS = 40
TOPIC = "songline.events"
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="songline" password="s3cret" user_songline="s3cret";'


class Kafka:
    """A cluster of two servers. The first of them is the controller, too."""

    def __init__(self, folder, log):
        self.folder, self.log, self.servers = folder, log, {}
        self.ports = {node: {name: free_port() for name in ("client", "internal")} for node in (1, 2)}
        self.controller = free_port()
        store = ["-keystore", f"{folder}/keys.p12", "-storepass", "changeit", "-alias", "kafka"]
        self.run(["keytool", "-genkeypair", "-keyalg", "EC", "-dname", "CN=kafka", "-ext", "san=ip:127.0.0.1", "-validity", "30", *store])
        self.run(["keytool", "-exportcert", "-rfc", "-file", f"{folder}/kafka.pem", *store])
        cluster = self.run([*JAVA, "kafka.tools.StorageTool", "random-uuid"]).split()[-1]
        for node in self.ports:
            self.write(node)
            self.run([*JAVA, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", f"{folder}/{node}.properties"])
            self.start(node)

    def write(self, node):
        ports, folder = self.ports[node], self.folder
        listeners = f"CLIENT://127.0.0.1:{ports['client']},INTERNAL://127.0.0.1:{ports['internal']}"
        own = f",CONTROLLER://127.0.0.1:{self.controller}" if node == 1 else ""
        with open(f"{folder}/{node}.properties", "w") as file:
            file.write(f"""node.id={node}
process.roles={"broker,controller" if node == 1 else "broker"}
controller.quorum.voters=1@127.0.0.1:{self.controller}
controller.listener.names=CONTROLLER
listeners={listeners}{own}
advertised.listeners={listeners}
listener.security.protocol.map=CLIENT:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=INTERNAL
sasl.enabled.mechanisms=PLAIN
listener.name.client.plain.sasl.jaas.config={LOGIN}
ssl.keystore.location={folder}/keys.p12
ssl.keystore.password=changeit
log.dirs={folder}/kafka-{node}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
""")

    def run(self, command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=self.log, text=True, timeout=120, env=without_limits())
        if done.returncode != 0:
            raise OSError(f"{command}: {done.stdout}")
        return done.stdout

    def start(self, node):
        command = [*JAVA, "kafka.Kafka", f"{self.folder}/{node}.properties"]
        self.servers[node] = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=without_limits())

    def kill(self, node):
        end(self.servers.pop(node))

    def address(self):
        return "kafka+tls://" + ",".join(f"127.0.0.1:{ports['client']}" for ports in self.ports.values())

    def tool(self, name, *words):
        brokers = ",".join(f"127.0.0.1:{ports['internal']}" for ports in self.ports.values())
        return self.run([*JAVA, f"org.apache.kafka.tools.{name}", "--bootstrap-server", brokers, *words])

    def topic(self):
        """For each partition of the topic its leader and the number of its replicas in sync."""
        rows = [line.split() for line in self.tool("TopicCommand", "--describe", "--topic", TOPIC).splitlines() if "Leader:" in line]
        field = lambda row, name: row[row.index(name) + 1]
        return [(field(row, "Leader:"), len(field(row, "Isr:").split(","))) for row in rows]

    def messages(self):
        """All messages of the topic: partition, index, key and events, in the order of each partition."""
        shown = [f"print.{what}=true" for what in ("key", "partition", "headers")]
        words = [word for one in shown for word in ("--formatter-property", one)]
        ends = [line.split(":") for line in self.tool("GetOffsetShell", "--topic", TOPIC).splitlines() if line.startswith(f"{TOPIC}:")]
        number = lambda text: int(text.split(":")[1])
        found = []
        for _, partition, end in ends:
            if end != "0":
                # A consumer of one partition needs no group, and ends with the last message.
                of_partition = ["--topic", TOPIC, "--partition", partition, "--offset", "earliest", "--max-messages", end]
                told = self.tool("consumer.ConsoleConsumer", *of_partition, "--timeout-ms", "30000", *words)
                rows = [line.split("\t") for line in told.splitlines() if line.startswith("Partition:")]
                found += [(number(row[0]), number(row[1]), row[2], json.loads(row[3])) for row in rows]
        return found


def without_limits():
    """The environment without options for other programs in Java."""
    return {name: value for name, value in os.environ.items() if name not in ("JAVA_TOOL_OPTIONS", "KAFKA_OPTS")}


def main():
    with tempfile.TemporaryDirectory() as folder:
        log = open(f"{folder}/log", "wb")
        kafka, agent = None, None
        try:
            kafka = Kafka(folder, log)
            agent = Agent(folder, log, SSL_CERT_FILE=f"{folder}/kafka.pem")
            sink = {
                "Type": "kafka", "Address": kafka.address(), "Subject": TOPIC, "PartitionKey": "object",
                "Secret": "songline:wrong", "Topics": {"NodePool": []}, "Position": 1,
            }
            agent.put("/v1/event-sink/bus", sink)
            agent.pool(0)
            agent.failing("the password is refused", "Invalid username or password")
            agent.put("/v1/event-sink/bus", {**sink, "Secret": "songline:s3cret"})
            agent.failing("there is no topic", f'topic "{TOPIC}": the topic or partition does not exist')
            create = ["--create", "--if-not-exists", "--topic", TOPIC, "--partitions", "4", "--replication-factor", "2"]
            until("both servers are there", lambda: kafka.tool("TopicCommand", *create))
            agent.settled(1)
            for n in range(1, POOLS):
                agent.pool(n)
                if n == POOLS // 4:
                    led = [leader for leader, _ in kafka.topic()]
                    assert "2" in led, led
                    kafka.kill(2)
                if n == POOLS // 2:
                    # The other replica leads all partitions by now.
                    agent.settled(n)
                    led = kafka.topic()
                    assert led == [("1", 1)] * 4, led
                    kafka.start(2)
                    agent.kill()
                    agent.start()
                if n == 3 * POOLS // 4:
                    until("the replicas are in sync", lambda: all(count == 2 for _, count in kafka.topic()))
                    kafka.kill(1)
                    agent.pool(POOLS)
                    agent.failing("nothing leads", "Kafka: ")
                    kafka.start(1)
            agent.settled(POOLS)
            partitions, last, names = {}, {}, set()
            messages = kafka.messages()
            for partition, index, key, frame in messages:
                assert index == frame["Index"] and [key] == [f"NodePool/{event['Key']}" for event in frame["Events"]], frame
                assert partitions.setdefault(key, partition) == partition, key
                names.add(frame["Events"][0]["Key"])
                # What comes again is not newer than what came before; anything newer is in the order of the log.
                last.setdefault(partition, []).append(index)
            assert names == {f"pool-{n}" for n in range(POOLS + 1)}, names
            for partition, indexes in last.items():
                fresh = [index for at, index in enumerate(indexes) if index not in indexes[:at]]
                assert fresh == sorted(fresh), (partition, indexes)
            print(f"== clients/sinks: {len(names)} events in {len(last)} partitions of Kafka, in order, {len(messages) - len(names)} of them repeated")
        except BaseException:
            log.flush()
            sys.stderr.write(open(f"{folder}/log", errors="replace").read()[-8000:])
            raise
        finally:
            if agent:
                agent.kill()
            for server in kafka.servers.values() if kafka else ():
                end(server)


main()
