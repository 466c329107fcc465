mod udf;
