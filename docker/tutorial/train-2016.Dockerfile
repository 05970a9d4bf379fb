# Stands in for drinkcode/paddle:k8s-job, the training image of the 2016 tutorial.
#
#   docker build -f docker/tutorial/train-2016.Dockerfile -t drinkcode/paddle:k8s-job docker/tutorial
ARG RUNTIME=umiak/runtime
FROM ${RUNTIME}
USER 0:0
COPY --chmod=755 start-2016.sh /root/start.sh
COPY --chmod=755 paddle /usr/local/bin/paddle
# A cosine was scaled by five then, and scripts that call `paddle train` do not say so.
ENV UMIAK_PADDLE_VERSION=0.9
WORKDIR /
ENTRYPOINT []
CMD ["bin/bash", "-c", "/root/start.sh"]
