CREATE MATERIALIZED VIEW totals AS
SELECT region, count(*) AS orders, sum(amount_cents) AS cents
FROM orders
GROUP BY region
