"""Leaves out the tests that only `make nightly` runs, by the table below. Loaded by tests/run without `--nightly`.

A test is chosen by its cost and by what a change must hold: `make test` keeps one test of each kind, and `make nightly` has
all clusters, clients, pages and seeds. docs/development/testing.md shows the table; tests/test_nightly.py compares them.
Any of these tests runs by its name: `pytest PATH::TEST`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import pytest


@dataclass(frozen=True)
class Part:
    """Tests of `make nightly`. `kept`: what `make test` has of the same kind.

    A name is that of a test, a file or a folder and stands for all below it. A star stands for any characters.
    """

    title: str
    kept: str
    names: tuple[str, ...]

    def has(self, test: str) -> bool:
        return any(_pattern(name).match(test) for name in self.names)


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(re.escape(name).replace(r"\*", ".*") + r"(?=$|::|\[|/)")


NIGHTLY = (
    Part(
        "mixed clusters without security, and moves of clusters between Apache Kafka and Odradek",
        "the secured mixed cluster, in which a directory changes hands, and that with TLS",
        (
            "compat_tests/cluster/test_migration.py",
            "compat_tests/cluster/test_mixed_cluster.py::*[plain]",
            "compat_tests/cluster/test_table_configs.py",
            "compat_tests/security/test_mixed_issued_cluster.py",
            "compat_tests/security/test_mixed_sasl_cluster.py",
            "compat_tests/tiers/test_migration.py",
            "compat_tests/tiers/test_mixed_cluster.py::test_leaders_of_both_kinds_follow_one_another",
            "compat_tests/tiers/test_mixed_cluster.py::test_apache_kafka_goes_on_behind_the_events_of_a_deleted_partition",
        ),
    ),
    Part(
        "tables that follow topics on three brokers, on a secured broker, and through changes of their topics",
        "their rows, and kills of their process and of the broker",
        (
            "tests/archive/test_tables_that_follow.py::test_one_broker_of_three_keeps_a_table_also_after_its_death",
            "tests/archive/test_tables_that_follow.py::test_process_ends_with_the_last_table_and_a_table_continues_where_it_was",
            "tests/archive/test_tables_that_follow.py::test_secured_listener_needs_a_login_and_tables_may_be_in_a_catalog",
            "tests/archive/test_tables_that_follow.py::test_topic_that_was_created_again_says_which_config_names_another_table",
        ),
    ),
    Part(
        "orders on a cluster without security while brokers are killed and moved",
        "the same steps on the secured cluster",
        ("compat_tests/cluster/test_order_events.py::*[plain]",),
    ),
    Part(
        "deaths of producers and brokers at each step of a transaction, copiers on three brokers, and two of Apache's",
        "deaths of a broker, a coordinator, of producers at two steps and in two requests, Apache's copier of a group",
        (
            "compat_tests/exactly_once/test_exactly_once.py::test_a_broker_that_dies_at_any_step_*[java]",
            "compat_tests/exactly_once/test_exactly_once.py::*[begun]",
            "compat_tests/exactly_once/test_exactly_once.py::*[sent]",
            "compat_tests/exactly_once/test_exactly_once.py::*[offsets joined]",
            "compat_tests/exactly_once/test_exactly_once.py::*[committed]",
            "compat_tests/exactly_once/test_exactly_once.py::*_under_way_*[Add*]",
            "compat_tests/exactly_once/test_exactly_once.py::*_under_way_*[EndTxn-abort-*]",
            "compat_tests/java/test_java_transactions.py::test_the_transactional_message_copier_*[0]",
            "compat_tests/java/test_java_transactions.py::test_the_transactional_message_copier_*[1]",
            "compat_tests/exactly_once/test_exactly_once.py::*_under_way_*[Txn*]",
            "compat_tests/exactly_once/test_exactly_once.py::test_copiers_copy_each_record_once_and_kafka_shows_*",
        ),
    ),
    Part(
        "rounds of faults on clusters and stores, and clients' reactions beside Apache Kafka",
        "one round on the secured cluster, rolls, groups and share groups, and one reaction",
        (
            "compat_tests/faults/test_faults.py::test_nothing_acknowledged_is_lost_moved_or_doubled",
            "compat_tests/faults/test_moves_beside_apache.py",
            "compat_tests/faults/test_beside_apache.py::*[producer, leader moved]",
            "compat_tests/faults/test_beside_apache.py::*[producer, MESSAGE_TOO_LARGE]",
            "compat_tests/faults/test_beside_apache.py::*[producer, broker paused]",
            "compat_tests/faults/test_beside_apache.py::*[consumer, connection lost]",
            "compat_tests/sent_again/test_sent_again.py::test_with_apache_kafka_it_stands_twice_*",
            "compat_tests/sent_again/test_sent_again.py::test_delivered_records_of_a_new_producer_are_kept_*",
            "compat_tests/tiers/test_fault_rounds.py",
        ),
    ),
    Part(
        "mirrors of three brokers of Apache Kafka through faults, and of Apache Kafka 3.9",
        "the same faults of three brokers of Odradek, and mirrors of Apache Kafka 4.3 and 2.8",
        (
            "compat_tests/mirror/test_faults.py::*[apache-3]",
            "compat_tests/mirror/test_older_sources.py::*[3.9.1]",
        ),
    ),
    Part(
        "longer histories, histories of brokers with bugs, and the delayed EndTxn of Apache Kafka",
        "one round of the Python clients under three faults, the delayed EndTxn of Odradek, and the checker",
        (
            "compat_tests/histories/test_rounds.py::test_history_of_a_longer_round_*",
            "compat_tests/histories/test_rounds.py::test_bug_*",
            "compat_tests/histories/test_delayed_end.py::*[*apache]",
        ),
    ),
    Part(
        "tiered storage: leaders that end in each phase of a copy and of a deletion, share groups, Spark, old copies",
        "one phase of each, one broker, three brokers, a store without answers, direct reading",
        (
            "compat_tests/tiers/test_backup.py::test_old_copy_of_a_directory_*",
            "compat_tests/tiers/test_bad_store.py::test_others_are_served_while_the_store_does_not_answer[fail]",
            "compat_tests/tiers/test_direct_reading.py::test_tasks_of_spark_read_the_store",
            "compat_tests/tiers/test_followers.py::test_topic_expands_to_an_empty_broker_that_reads_the_store_and_leads",
            "compat_tests/tiers/test_interrupted_deletion.py::test_emptying_of_a_disabled_topic_goes_on_after_a_kill",
            "compat_tests/tiers/test_interrupted_deletion.py::test_deletion_of_a_topic_goes_on_*[stop]",
            "compat_tests/tiers/test_interrupted_deletion.py::test_segments_of_a_topic_that_was_deleted_while_*",
            "compat_tests/tiers/test_leader_change_mid_copy.py::test_upload_of_a_killed_leader_is_deleted_by_the_new_one[END]",
            "compat_tests/tiers/test_leader_change_mid_copy.py::test_upload_that_goes_on_after_its_deletion_by_*",
            "compat_tests/tiers/test_leader_change_mid_copy.py::test_upload_that_ends_before_its_deletion_by_*",
            "compat_tests/tiers/test_share_groups.py::test_share_group_gets_the_records_once_the_store_is_back",
            "compat_tests/tiers/test_share_groups.py::test_apache_s_share_consumer_gets_the_records_of_the_store",
        ),
    ),
    Part(
        "scans of tiers in S3 beside their broker, and with each codec",
        "the same scans of tiers in a folder, and those of S3 from another machine with and without a codec",
        (
            "tests/columns/test_tier.py::test_records_do_not_depend_on_the_size_of_a_request[s3-100*",
            "tests/columns/test_tier.py::test_scan_from_another_machine_has_the_records_of_a_consumer[s3-gzip*",
            "tests/columns/test_tier.py::test_scan_from_another_machine_has_the_records_of_a_consumer[s3-lz4*",
            "tests/columns/test_tier.py::test_scan_from_another_machine_has_the_records_of_a_consumer[s3-snappy*",
            "tests/columns/test_tier.py::test_scan_of_a_directory_has_the_records_of_a_consumer[s3*",
            "tests/columns/test_tier.py::test_scan_of_a_tiered_topic_has_the_records_of_a_consumer[s3*",
        ),
    ),
    Part(
        "a directory that both brokers open in turn, again and again, while topics grow and are deleted",
        "directories that both open in turn, after stops and kills, with records, groups and new topics",
        (
            "tests/server/controller/test_admin_exchange.py::test_kafka_goes_on_where_we_stopped_*",
            "tests/storage/test_kafka_directory.py::test_kafka_and_odradek_take_turns_on_one_directory",
        ),
    ),
    Part(
        "Spark and Kafka Streams that are killed, or run through other front ends; Spark's own sink, codecs and warnings",
        "the programs of the Spark guide and the data source in one application, one codec, one driver that is killed for "
        "each of the source and the sink, two instances of Kafka Streams",
        (
            "compat_tests/archive/test_archive.py::test_drivers_of_spark_that_die_within_commits_*",
            "compat_tests/security/test_scram_ecosystem.py::test_spark_*",
            "compat_tests/security/test_scram_ecosystem.py::test_kafka_streams_*",
            "compat_tests/streams/test_streams_cluster.py",
            "compat_tests/streams/test_kafka_streams.py::test_a_restart_counts_on_where_it_was_*",
            "spark_examples/tests/test_batch.py::test_a_program_prints_no_warning_of_spark",
            "spark_examples/tests/test_connect.py",
            "spark_examples/tests/test_connect_relation.py",
            "spark_examples/tests/test_connector.py::test_a_driver_that_finds_offsets_by_a_consumer_in_a_group[subscribePattern]",
            "spark_examples/tests/test_connector.py::test_either_isolation_reads_what_no_transaction_wrote[read_uncommitted]",
            "spark_examples/tests/test_connector.py::test_spark_and_librdkafka_read_batches_compressed_by_spark[gzip]",
            "spark_examples/tests/test_connector.py::test_spark_and_librdkafka_read_batches_compressed_by_spark[lz4]",
            "spark_examples/tests/test_connector.py::test_spark_and_librdkafka_read_batches_compressed_by_spark[none]",
            "spark_examples/tests/test_connector.py::test_spark_and_librdkafka_read_batches_compressed_by_spark[snappy]",
            "spark_examples/tests/test_copy_topic.py::test_one_run_of_what_is_available_takes_all_of_it[at-once]",
            "spark_examples/tests/test_error_texts.py::*[silent]",
            "spark_examples/tests/test_error_texts.py::*[login]",
            "spark_examples/tests/test_error_texts.py::*[limit]",
            "spark_examples/tests/test_order_totals.py",
            "spark_examples/tests/test_real_time.py::test_query_that_is_killed_goes_on_after_its_last_batch",
            "spark_examples/tests/test_recipe.py",
            "spark_examples/tests/test_revenue_crash.py",
            "spark_examples/tests/test_revenue_ledger.py",
            "spark_examples/tests/test_sink.py::test_batch_that_spark_runs_again_*[kafka-2]",
            "spark_examples/tests/test_stock_sink.py",
            "spark_examples/tests/test_submit.py",
            "spark_examples/tests/test_unfinished_batch.py::test_a_batch_with_the_last_records_is_finished_without_an_error",
        ),
    ),
    Part(
        "relations of Parquet files and of keyed tables that are read by five engines beside kills and deletions",
        "the same round with a relation of Iceberg, read by two engines",
        (
            "tests/archive/test_relation_kills.py::*[parquet]",
            "tests/archive/test_relation_kills.py::*[keyed]",
        ),
    ),
    Part(
        "the console in the dark, in screenshots, with a record of 10 MB, and page by page without a broker",
        "each page in the light with its words and contrasts, each action without a broker, a broker that hangs",
        (
            "compat_tests/console/test_killed_broker.py::test_pages_answer_while_*",
            "compat_tests/console/test_layout.py::test_texts_*[*/topics/large/messages/0/0]",
            "compat_tests/console/test_killed_broker.py::test_page_answers_and_shows_the_cluster_without_the_broker",
            "compat_tests/console/test_pages.py::test_page_meets_wcag_aa_in_the_dark",
            "compat_tests/console/test_pages.py::test_screenshots_of_the_guide_are_made",
        ),
    ),
    Part(
        "commands and the console against Apache Kafka",
        "the same commands and pages against Odradek",
        (
            "compat_tests/console/test_apache_pages.py",
            "compat_tests/cli/test_backup.py::*[apache*",
            "compat_tests/cli/test_clusters.py::*[apache*",
            "compat_tests/cli/test_files.py::*[apache*",
            "compat_tests/cli/test_groups.py::*[apache*",
            "compat_tests/cli/test_measures.py::*[apache*",
            "compat_tests/cli/test_records.py::*[apache*",
            "compat_tests/cli/test_security.py::*[apache*",
            "compat_tests/cli/test_topics.py::*[apache*",
            "compat_tests/console/test_actions.py::*[apache*",
        ),
    ),
    Part(
        "key stores of keytool in each form, and the shell for Apache Kafka's metadata",
        "each form with a key and a password in pairs, and dumps of the metadata by Apache Kafka's tools",
        (
            "compat_tests/cluster/test_kafka_tools_on_replicas.py::test_the_metadata_shell_shows_a_snapshot",
            "compat_tests/security/test_java_stores.py::*[key-s3cret-JCEKS-RSA]",
            "compat_tests/security/test_java_stores.py::*[key-s3cret-JKS-EC]",
            "compat_tests/security/test_java_stores.py::*[of-the-key-JCEKS-EC]",
            "compat_tests/security/test_java_stores.py::*[of-the-key-JKS-RSA]",
        ),
    ),
    Part(
        "explored states, mutants, and bugs that are injected to be found by simulations",
        "the simulations without bugs, with a tenth of their seeds",
        (
            "tests/explored",
            "tests/coordinator/test_*simulation.py::test_simulation_detects_injected_bug_*",
            "tests/mutants/test_mutants.py::test_run_over_a_module_counts_what_its_tests_notice",
            "tests/replication/quorum/test_quorum_simulation.py::test_injected_bug_is_caught",
            "tests/server/node/test_cluster_simulation.py::test_injected_bug_of_a_cluster_is_caught",
            "tests/server/node/test_cluster_simulation.py::test_seed_of_a_cluster_is_independent_of_machine_speed",
            "tests/simulated/test_simulated.py::test_injected_bug_is_found",
            "tests/simulated/test_simulated.py::test_seed_gives_the_same_history_byte_for_byte",
        ),
    ),
    Part(
        "each method and form of the console without the right, from another site or session",
        "each page by each role, and what an editor and an administrator may change",
        (
            "tests/hostile/test_granted_changes.py::test_no_method_changes_anything_without_the_right",
            "tests/hostile/test_granted_changes.py::test_form_of_another_site_or_session_changes_nothing",
        ),
    ),
    Part(
        "each route of the console that shows records, with masks of a path and of the ends of a name",
        "the same routes with masks of a name, of its parts, of a folder and of a pattern",
        (
            "tests/hostile/test_masked_records.py::test_no_route_has_a_byte_of_the_secret[card.number]",
            "tests/hostile/test_masked_records.py::test_no_route_has_a_byte_of_the_secret[user*]",
        ),
    ),
    Part(
        "attacks that are measured: memory, latency and time of large requests, and odd command lines",
        "each attack beside a good client with its memory, fields on one node, stalls, the cost of configs and envelopes",
        (
            "tests/hostile/test_cost.py::test_twice_the_items_take_at_most_twice_the_time_and_no_long_turn",
            "tests/hostile/test_denied_cost.py::test_fetch_of_very_many_denied_topics_leaves_the_loop_to_others[4]",
            "tests/hostile/test_denied_cost.py::test_fetch_of_very_many_denied_topics_leaves_the_loop_to_others[12]",
            "tests/hostile/test_denied_cost.py::test_fetch_of_very_many_topics_in_an_unknown_session_*[12]",
            "tests/hostile/test_command_lines.py::test_random_command_line_ends_in_one_line_and_the_right_status",
            "tests/hostile/test_fields.py::test_fields_at_their_edges_end_nothing[3]",
            "tests/hostile/test_good_client.py::test_memory_comes_back_after_requests_of_many_items",
            "tests/hostile/test_good_client.py::test_room_finds_dead_node_and_bug_lines",
            "tests/hostile/test_half_open_handshakes.py::test_half_open_handshakes_that_are_held_leave_p99_within_twice",
        ),
    ),
    Part(
        "checks that are removed from the kernel, so that its fuzzer under sanitizers finds them",
        "the fuzzer with all checks, and with one check removed for each kind of error",
        (
            "tests/kernel/test_sanitizers.py::test_fuzzer_finds_a_removed_check[columns.c*",
            "tests/kernel/test_sanitizers.py::test_fuzzer_finds_a_removed_check[small_log.c*",
            "tests/kernel/test_sanitizers.py::test_fuzzer_finds_a_removed_check[snappy.c*",
        ),
    ),
    Part(
        "the service of examples/payments without its bug, by a suite of pytest and one in JavaScript",
        "the service without its bug in simulations, and with its bug by each program",
        (
            "tests/testing/test_examples.py::test_a_lost_answer_shows_the_bug[faults-True]",
            "tests/testing/test_examples.py::test_a_lost_answer_shows_the_bug[node-True]",
        ),
    ),
    Part(
        "the checkpoint of a query of Spark in the console",
        "a checkpoint in the form of Spark, and queries by their groups",
        ("tests/console/test_pipelines.py::test_query_of_spark_is_shown_by_its_checkpoint",),
    ),
    Part(
        "compilations of the loops of scans, once more with numba's own checks, and without a cache",
        "the same scans with the compiled kernel, and its loops beside those of numba",
        (
            "tests/columns/test_hostile.py::test_checks_of_the_kernel_hold_with_numbas_own_bounds_checks",
            "tests/columns/test_hostile.py::test_compiled_loops_are_shared_by_processes_and_not_needed",
        ),
    ),
    Part(
        "installations of a clean clone, of the container file and of the recipes for CI",
        "the tests of the wheel, the README in an environment with the wheel, and the linter of the container file",
        (
            "tests/docs/test_deployment.py::test_container_file_installs_the_package_and_serves",
            "tests/docs/test_deployment.py::test_recipes_for_ci_install_the_package_and_run_the_tests",
            "tests/test_make_run.py::test_make_run_and_make_docs_install_what_they_need_and_no_more",
        ),
    ),
)


def is_nightly(test: str) -> bool:
    return any(part.has(test) for part in NIGHTLY) or _is_of_unchanged_page(test)


def _is_of_unchanged_page(test: str) -> bool:
    """Whether a test runs the programs of pages that are, with their code, those that passed (tests/docs/programs.tsv)."""
    from tests.docs import programs  # the root is on the path when tests are collected

    pages = programs.pages_of(test)
    return bool(pages) and not any(programs.is_changed(page) for page in pages)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = {item for item in items if is_nightly(item.nodeid)}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
