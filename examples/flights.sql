-- The average delay of a year's departures from New York, by airport, over four weeks, every week.
-- Run it from anywhere: slackwater run examples/flights.sql

CREATE STREAM departures
  FROM 'parquet' OPTIONS (path = '../slackwater/data/flights.parquet')
  TIME scheduled                          -- when the flight should have left
  REPLAY BY departed PAGE 4 DAYS          -- when it did leave, and how much comes at once
  DISORDER BOUNDED 12 HOURS;              -- rows come at most so far out of order

SELECT origin,
       count(*) AS flights,
       avg(delay_min) AS delay,
       count(CASE WHEN delay_min > 15 THEN 1 END) AS late
FROM departures [RANGE 28 DAYS, SLIDE 7 DAYS]
WHERE carrier <> 'YV'
GROUP BY origin;

-- Without a sink the results are printed. To keep them as Parquet, and the rows that came too late beside them, write
-- INSERT INTO '../out/delays' LATE INTO '../out/late' before SELECT.
