-- How many flights are there in three hours? Asked when half of the last hour is over, and told in the end.
-- slackwater run examples/early_flights.sql

CREATE STREAM flights
  FROM 'parquet' OPTIONS (path = '../slackwater/data/flights.parquet')
  WHERE departed < '2013-01-08'
  TIME scheduled
  REPLAY BY departed PAGE 30 MINUTES
  DISORDER DROP RATIO 1%;

SELECT origin, count(*) AS flights
FROM flights [RANGE 3 HOURS, SLIDE 1 HOUR]
GROUP BY origin
EMIT EARLY AT 50%;
