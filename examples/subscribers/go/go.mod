module songline.example/subscribe

go 1.21
