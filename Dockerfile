# docker build -t precall . && docker run --rm -v "$PWD:/data" precall assess --real real.npy --fake fake.npy
FROM python:3.12-slim
COPY pyproject.toml README.md LICENSE constraints.txt /precall/
COPY src /precall/src
RUN pip install --no-cache-dir --constraint /precall/constraints.txt /precall && rm -r /precall \
    && useradd --create-home precall
USER precall
ENV PRECALL_CACHE=/home/precall/.cache/precall
WORKDIR /data
ENTRYPOINT ["precall"]
CMD ["--help"]
