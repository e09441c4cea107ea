# A driver that runs job.py with Slackwater. Build it in a folder with the wheel and your job:
#   docker build -f deploy.Dockerfile -t my-job .
FROM python:3.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
COPY slackwater-*.whl /wheels/
RUN pip install --no-cache-dir /wheels/slackwater-*.whl && useradd --create-home --uid 1000 app
USER app
WORKDIR /home/app
COPY --chown=app job.py .
# Spark's workers must have the same Python if the job calls map() or functions of its own.
ENV PYSPARK_PYTHON=python3.11 PYSPARK_DRIVER_PYTHON=python3.11
CMD ["python", "job.py"]
