# Stands in for drinkcode/paddle:k8s-job, the training image of the 2016 tutorial.
#
#   docker build -f docker/tutorial/train-2016.Dockerfile -t drinkcode/paddle:k8s-job docker/tutorial
ARG RUNTIME=umiak/runtime
FROM ${RUNTIME}
USER 0:0
COPY --chmod=755 start-2016.sh /root/start.sh
WORKDIR /
ENTRYPOINT []
CMD ["bin/bash", "-c", "/root/start.sh"]
