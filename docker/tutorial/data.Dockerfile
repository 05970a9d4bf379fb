# Stands in for paddlepaddle/paddle-tutorial:k8s_data, the data image of the 2017 tutorial: it carries a config directory and a
# small text set, and puts both on the volume, cut into SPLIT_COUNT shards.
#
#   (cd examples/paddle_v1/quick_start && python prepare.py)
#   docker build -f docker/tutorial/data.Dockerfile -t paddlepaddle/paddle-tutorial:k8s_data examples/paddle_v1/quick_start
ARG RUNTIME=umiak/runtime
FROM ${RUNTIME}
USER 0:0
COPY *.py /quick_start/
COPY data /quick_start_data/
WORKDIR /
ENTRYPOINT []
CMD ["umiak", "pod", "data"]
