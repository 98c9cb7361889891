export OMPI_MCA_btl=^openib
