# Stands in for paddlepaddle/paddle-tutorial:k8s_train, the training image of the 2017 tutorial: root, a writable root, and
# /root/start.sh, which its YAML calls through the relative path bin/bash.
#
#   docker build -f docker/tutorial/train.Dockerfile -t paddlepaddle/paddle-tutorial:k8s_train docker/tutorial
ARG RUNTIME=umiak/runtime
FROM ${RUNTIME}
USER 0:0
COPY --chmod=755 start-2017.sh /root/start.sh
COPY --chmod=755 paddle /usr/local/bin/paddle
WORKDIR /
ENTRYPOINT []
CMD ["bin/bash", "-c", "/root/start.sh"]
