-- Which delay was the worst of all airports, hour by hour? A query over a query, and a view.
-- slackwater run examples/worst_airport.sql

CREATE STREAM flights
  FROM 'parquet' OPTIONS (path = '../slackwater/data/flights.parquet')
  WHERE departed < '2013-01-15'
  TIME scheduled SOURCE origin
  REPLAY BY departed PAGE 2 HOURS
  DISORDER LEARNED;

CREATE VIEW by_airport AS
  SELECT origin, avg(delay_min) AS delay, count(*) AS flights
  FROM flights [RANGE 3 HOURS, SLIDE 1 HOUR]
  GROUP BY origin
  HAVING flights >= 10;

SELECT max(delay) AS worst, count(*) AS airports
FROM by_airport [RANGE 1 HOUR, SLIDE 1 HOUR]
HAVING worst > 30;
